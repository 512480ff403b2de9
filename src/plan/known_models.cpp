#include "plan/known_models.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "plan/data.h"

namespace weir::plan {
namespace {

constexpr std::size_t kMaxName = 200;

// Words of a name that say how it was tuned or made, not what it is.
constexpr std::array<std::string_view, 28> kNoise = {
    "instruct",  "chat",    "it",     "hf",         "base",        "thinking",  "meta",
    "preview",   "dynamic", "static", "per",        "tensor",      "pertensor", "block",
    "quantized", "gguf",    "eagle3", "qat",        "pt",          "reasoning", "online",
    "offline",   "model",   "kv",     "uncensored", "abliterated", "original",  "mlx"};

constexpr std::array<std::pair<std::string_view, std::string_view>, 16> kTypeWords = {{{"fp8", "fp8"},
                                                                                       {"nvfp4", "nvfp4"},
                                                                                       {"fp4", "nvfp4"},
                                                                                       {"mxfp4", "mxfp4"},
                                                                                       {"bf16", "bf16"},
                                                                                       {"fp16", "fp16"},
                                                                                       {"awq", "awq"},
                                                                                       {"gptq", "gptq"},
                                                                                       {"int4", "int4"},
                                                                                       {"4bit", "int4"},
                                                                                       {"int8", "int8"},
                                                                                       {"8bit", "int8"},
                                                                                       {"w4a16", "w4a16"},
                                                                                       {"w8a8", "w8a8"},
                                                                                       {"w8a16", "int8"},
                                                                                       {"bfloat16", "bf16"}}};

std::vector<std::string> words_of(std::string_view text) {
  if (const auto slash = text.find_last_of("/:"); slash != std::string_view::npos && slash + 1 < text.size())
    text.remove_prefix(slash + 1);
  std::vector<std::string> words(1);
  for (const char c : text.substr(0, kMaxName)) {
    const bool cut = c == '-' || c == '_' || c == ' ';
    if (cut && !words.back().empty()) words.emplace_back();
    if (!cut) words.back() += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

bool is_date(std::string_view word) {
  return (word.size() == 4 || word.size() == 8) &&
         std::ranges::all_of(word, [](char c) { return c >= '0' && c <= '9'; });
}

// "v0.3", "v1.1": of a tune or an edition, where "V3" is a model.
bool is_version(std::string_view word) {
  return (word.starts_with("v0.") || word.starts_with("v1.") || word == "v1");
}

std::string join(const std::vector<std::string>& words) {
  std::string key;
  for (const std::string& word : words) key += word;
  return key;
}

// The words that name a model, and the type among the others.
std::string reduced(std::vector<std::string> words, bool with_version, std::string& types) {
  std::erase_if(words, [&](const std::string& word) {
    const auto* type =
        std::ranges::find(kTypeWords, std::string_view(word), &std::pair<std::string_view, std::string_view>::first);
    if (type != kTypeWords.end()) types = type->second;
    return type != kTypeWords.end() || is_date(word) || (!with_version && is_version(word)) ||
           std::ranges::find(kNoise, std::string_view(word)) != kNoise.end();
  });
  return join(words);
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1] ? 1 : 0)});
      diagonal = above;
    }
  }
  return row.back();
}

std::string nearest_names(const std::string& key) {
  std::vector<std::pair<std::size_t, std::string>> order;
  for (const KnownModel& known : known_model_table())
    order.emplace_back(edit_distance(key, join(words_of(known.name))), known.name);
  std::ranges::sort(order);
  std::string names;
  for (std::size_t i = 0; i < std::min<std::size_t>(5, order.size()); ++i)
    names += (i == 0 ? "" : ", ") + order[i].second;
  return names;
}

// `as_named`: by whole names; else by what remains of them without tuning, dates, types and versions.
const KnownModel* find_key(const std::string& key, bool as_named) {
  if (key.empty()) return nullptr;
  const auto matches = [&](const std::string& name) {
    std::string ignored;
    return (as_named ? join(words_of(name)) : reduced(words_of(name), /*with_version=*/false, ignored)) == key;
  };
  for (const KnownModel& known : known_model_table()) {
    if (matches(known.name) || std::ranges::any_of(known.aliases, matches)) return &known;
  }
  return nullptr;
}

}  // namespace

const std::vector<KnownModel>& known_model_table() {
  static const std::vector<KnownModel> table = [] {
    const auto list = nlohmann::json::parse(data_file("models.json"), nullptr, /*allow_exceptions=*/false);
    CHECK(list.is_array(), "models.json is no list");
    std::vector<KnownModel> models;
    for (const auto& entry : list)
      models.push_back({entry.at("name"), entry.at("aliases").get<std::vector<std::string>>(), entry.at("config")});
    return models;
  }();
  return table;
}

Result<NamedModel> find_known_model(const std::string& text) {
  const auto words = words_of(text);
  NamedModel found;
  std::string types;
  const std::string key = reduced(words, /*with_version=*/false, types);
  // From the most to the least that a name says: "Mistral-7B-Instruct-v0.1" is not the latest "Mistral-7B".
  found.model = find_key(join(words), true);
  if (found.model == nullptr) found.model = find_key(reduced(words, /*with_version=*/true, types), true);
  if (found.model == nullptr) found.model = find_key(key, true);
  if (found.model == nullptr) found.model = find_key(key, false);
  found.types = types;
  if (found.model != nullptr) return found;
  return fail(ErrorCode::kNotFound,
              "no file, folder or known model \"{}\"; nearest known: {}. A Hugging Face folder, its config.json or a "
              "GGUF file does as well",
              text.substr(0, kMaxName), nearest_names(key));
}

}  // namespace weir::plan

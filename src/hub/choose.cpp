#include "hub/choose.h"

#include <algorithm>
#include <array>
#include <map>

namespace weir::hub {
namespace {

using Paths = std::vector<std::string>;

constexpr std::size_t kListed = 40;  // names in an error message

constexpr std::string_view kWeights = "model.safetensors", kIndex = "model.safetensors.index.json";
constexpr std::string_view kDefaultType = "Q4_K_M";

// What beside the weights describes a model. Not everything is read by weir itself: the folder shall serve other
// programs too.
constexpr std::array<std::string_view, 16> kDescriptions = {"config.json",          "generation_config.json",
                                                            "tokenizer.json",       "tokenizer_config.json",
                                                            "tokenizer.model",      "special_tokens_map.json",
                                                            "added_tokens.json",    "vocab.json",
                                                            "merges.txt",           "vocab.txt",
                                                            "spiece.model",         "chat_template.jinja",
                                                            "chat_template.json",   "preprocessor_config.json",
                                                            "quantize_config.json", "hf_quant_config.json"};
constexpr std::string_view kTemplateFolder = "additional_chat_templates/";

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + ('a' - 'A'));
  }
  return out;
}

bool is_gguf(std::string_view path) {
  return lower(path).ends_with(".gguf");
}

std::string_view base_name(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

std::string list_of(const Paths& names) {
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kListed); ++i) text += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > kListed) text += fmt::format(" and {} more", names.size() - kListed);
  return text;
}

// One GGUF model: a file, or the parts NAME-00001-of-00003.gguf ... of one.
struct GgufSet {
  std::string stem;  // path without the part number and ".gguf"
  std::size_t parts = 1;
  Paths files;  // in order
};

bool all_digits(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

// "-00001-of-00003" at the end of a stem.
std::size_t split_parts(std::string_view stem) {
  constexpr std::size_t kSuffix = 15;
  if (stem.size() <= kSuffix) return 0;
  const auto suffix = stem.substr(stem.size() - kSuffix);
  const auto part = suffix.substr(1, 5), parts = suffix.substr(10, 5);
  if (suffix.front() != '-' || suffix.substr(6, 4) != "-of-" || !all_digits(part) || !all_digits(parts)) return 0;
  return std::stoul(std::string(parts));
}

std::vector<GgufSet> gguf_sets(const Paths& paths) {
  std::map<std::pair<std::string, std::size_t>, GgufSet> sets;
  for (const std::string& path : paths) {
    if (!is_gguf(path)) continue;
    std::string stem = path.substr(0, path.size() - 5);
    const std::size_t parts = split_parts(stem);
    if (parts > 0) stem.resize(stem.size() - 15);
    GgufSet& set = sets[{stem, parts}];
    set.stem = stem;
    set.parts = std::max<std::size_t>(parts, 1);
    set.files.push_back(path);
  }
  std::vector<GgufSet> out;
  for (auto& [key, set] : sets) out.push_back(std::move(set));
  return out;
}

// Parts of other models that lie beside one: projectors of images, importance matrices.
bool is_companion(const GgufSet& set) {
  const std::string name = lower(base_name(set.stem));
  return name.find("mmproj") != name.npos || name.find("imatrix") != name.npos;
}

// The quantisation stands at the end of the name, or is the name of the folder.
bool has_type(const GgufSet& set, std::string_view type) {
  const std::string stem = lower(set.stem), wanted = lower(type);
  const auto slash = stem.rfind('/');
  if (slash != stem.npos) {
    const std::string_view folder = base_name(std::string_view(stem).substr(0, slash));
    if (folder == wanted) return true;
  }
  const std::string_view name = base_name(stem);
  if (!name.ends_with(wanted)) return false;
  if (name.size() == wanted.size()) return true;
  const char before = name[name.size() - wanted.size() - 1];
  return before == '-' || before == '.' || before == '_';
}

Paths names_of(const std::vector<GgufSet>& sets) {
  Paths names;
  for (const GgufSet& set : sets) names.push_back(set.files.front());
  return names;
}

Result<Choice> choose_gguf(const GgufSet& set, const std::string& repo) {
  Choice choice;
  choice.files = set.files;
  choice.main = set.files.front();
  for (std::size_t i = 0; set.parts > 1 && i < set.parts; ++i) {
    const std::string part = fmt::format("{}-{:05}-of-{:05}.gguf", set.stem, i + 1, set.parts);
    if (i >= set.files.size() || set.files[i] != part)
      return fail(ErrorCode::kNotFound, "{}: {} has {} parts, and {} is not there", repo, set.files.front(), set.parts,
                  part);
  }
  return choice;
}

Result<Choice> choose_named(const Paths& paths, const std::string& path, const std::string& repo) {
  for (const GgufSet& set : gguf_sets(paths)) {
    if (std::ranges::find(set.files, path) != set.files.end()) return choose_gguf(set, repo);
  }
  return Choice{.files = {path}, .main = path};
}

Result<Choice> choose_wanted(const Paths& paths, std::string_view wanted, const std::string& repo) {
  if (std::ranges::binary_search(paths, wanted)) return choose_named(paths, std::string(wanted), repo);
  Paths named;
  if (wanted.find('/') == wanted.npos) {
    std::ranges::copy_if(paths, std::back_inserter(named),
                         [&](const std::string& path) { return base_name(path) == wanted; });
  }
  if (named.size() == 1) return choose_named(paths, named.front(), repo);
  if (named.size() > 1)
    return fail(ErrorCode::kInvalidArgument, "{}: several files are called {}; name one of: {}", repo, wanted,
                list_of(named));
  std::vector<GgufSet> all = gguf_sets(paths), fitting;
  std::erase_if(all, is_companion);
  std::ranges::copy_if(all, std::back_inserter(fitting), [&](const GgufSet& set) { return has_type(set, wanted); });
  if (fitting.size() == 1) return choose_gguf(fitting.front(), repo);
  if (fitting.size() > 1)
    return fail(ErrorCode::kInvalidArgument, "{}: several models are in {}; name one of: {}", repo, wanted,
                list_of(names_of(fitting)));
  return fail(ErrorCode::kNotFound, "{}: there is no file '{}' and no GGUF model of that type; {}", repo, wanted,
              all.empty() ? "there is no GGUF file at all" : "the GGUF models are: " + list_of(names_of(all)));
}

Choice choose_folder(const Paths& paths) {
  const auto there = [&](std::string_view path) { return std::ranges::binary_search(paths, path); };
  Choice choice;
  for (const std::string_view name : kDescriptions) {
    if (there(name)) choice.files.emplace_back(name);
  }
  for (const std::string& path : paths) {
    if (path.starts_with(kTemplateFolder) && path.ends_with(".jinja")) choice.files.push_back(path);
  }
  if (there(kWeights)) {
    choice.files.emplace_back(kWeights);
  } else {
    choice.index = kIndex;
    choice.files.emplace_back(kIndex);
  }
  return choice;
}

// Why there is nothing to choose.
tl::unexpected<Error> nothing_fits(const Paths& paths, const std::string& repo) {
  const auto there = [&](std::string_view path) { return std::ranges::binary_search(paths, path); };
  if (there("adapter_config.json"))
    return fail(ErrorCode::kUnsupported,
                "{}: this is an adapter (LoRA) to another model, not a model; weir does not serve adapters", repo);
  const auto pickle = std::ranges::find_if(paths, [](const std::string& path) {
    return path.ends_with(".bin") || path.ends_with(".pth") || path.ends_with(".pt") || path.ends_with(".ckpt");
  });
  if (pickle != paths.end())
    return fail(ErrorCode::kUnsupported,
                "{}: its weights are pickle files only ({}), which can run code; weir does not read them. Look for a "
                "repository of the model with safetensors or GGUF",
                repo, *pickle);
  return fail(ErrorCode::kNotFound, "{}: neither a GGUF file nor config.json with {} or {} is there{}", repo, kWeights,
              kIndex, paths.empty() ? "; it is empty" : "; it holds: " + list_of(paths));
}

}  // namespace

Result<Choice> choose_files(const Paths& paths, std::string_view wanted, const std::string& repo) {
  if (!wanted.empty()) return choose_wanted(paths, wanted, repo);
  const auto there = [&](std::string_view path) { return std::ranges::binary_search(paths, path); };
  if (there("config.json") && (there(kWeights) || there(kIndex))) return choose_folder(paths);
  std::vector<GgufSet> sets = gguf_sets(paths), fitting;
  std::erase_if(sets, is_companion);
  if (sets.empty()) return nothing_fits(paths, repo);
  if (sets.size() == 1) return choose_gguf(sets.front(), repo);
  std::ranges::copy_if(sets, std::back_inserter(fitting),
                       [](const GgufSet& set) { return has_type(set, kDefaultType); });
  if (fitting.size() != 1)
    return fail(ErrorCode::kInvalidArgument, "{}: there are several GGUF models; name one as {}:FILE: {}", repo, repo,
                list_of(names_of(sets)));
  WEIR_TRY(auto choice, choose_gguf(fitting.front(), repo));
  choice.note = fmt::format("{} of {} GGUF models; another one is {}:FILE", choice.main, sets.size(), repo);
  return choice;
}

}  // namespace weir::hub

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "load/hf_config.h"
#include "load/hf_wrappers.h"
#include "load/limits.h"

namespace weir::load {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxTemplates = 64;

Status add_end_ids(const JsonFields& fields, int vocab, std::vector<TokenId>& ids) {
  const json* value = fields.member("eos_token_id");
  if (value == nullptr) return {};
  const json list = value->is_array() ? *value : json::array({*value});
  for (const json& id : list) {
    if (!id.is_number_integer() || id.get<double>() < 0 || id.get<double>() >= vocab) {
      return fail_at("eos_token_id", ErrorCode::kCorruptFile,
                     "{}: \"eos_token_id\" holds {}; a token id from 0 to {} expected", fields.file(),
                     id.dump().substr(0, 40), vocab - 1);
    }
    ids.push_back(id.get<TokenId>());
  }
  std::ranges::sort(ids);
  const auto repeated = std::ranges::unique(ids);
  ids.erase(repeated.begin(), repeated.end());
  return {};
}

Status add_template(std::map<std::string, std::string>& templates, const std::string& name, const json& text,
                    const std::string& file) {
  if (!text.is_string())
    return fail_at("chat_template", ErrorCode::kCorruptFile, "{}: chat_template \"{}\" is no string", file, name);
  const auto& source = text.get_ref<const std::string&>();
  if (source.size() > kMaxTemplateBytes) {
    return fail_at("chat_template", ErrorCode::kTooLarge,
                   "{}: chat_template \"{}\" has {} bytes; at most {} are allowed", file, name, source.size(),
                   kMaxTemplateBytes);
  }
  templates[name == "default" ? "" : name] = source;
  return {};
}

// tokenizer_config.json: one template, or a list of {"name", "template"}.
Status add_configured(std::map<std::string, std::string>& templates, const json& tokenizer_config,
                      const std::string& file) {
  const JsonFields fields(tokenizer_config, file);
  const json* value = fields.member("chat_template");
  if (value == nullptr) return {};
  if (!value->is_array()) return add_template(templates, "default", *value, file);
  for (const json& entry : *value) {
    if (!entry.is_object() || !entry.contains("name") || !entry["name"].is_string() || !entry.contains("template")) {
      return fail_at("chat_template", ErrorCode::kCorruptFile,
                     "{}: an entry of chat_template lacks \"name\" or \"template\"", file);
    }
    WEIR_RETURN_IF_ERROR(add_template(templates, entry["name"].get<std::string>(), entry["template"], file));
    if (templates.size() > kMaxTemplates) {
      return fail_at("chat_template", ErrorCode::kTooLarge, "{}: more than {} chat templates", file, kMaxTemplates);
    }
  }
  return {};
}

}  // namespace

Result<GenerationDefaults> generation_from_folder(const std::string& folder, const json& config, int vocab) {
  GenerationDefaults defaults;
  const JsonFields model(holder_of("eos_token_id", config), folder + "/config.json");
  const std::string path = folder + "/generation_config.json";
  if (std::error_code ignored; !std::filesystem::exists(path, ignored)) {
    WEIR_RETURN_IF_ERROR(add_end_ids(model, vocab, defaults.eos_ids));
    return defaults;
  }
  WEIR_TRY(const auto text, read_text_file(path, kMaxConfigBytes));
  WEIR_TRY(const json object, parse_json(text, path));
  const JsonFields fields(object, path);
  WEIR_RETURN_IF_ERROR(add_end_ids(fields.has("eos_token_id") ? fields : model, vocab, defaults.eos_ids));

  const auto sampling = [&](const char* key, double low, double high) -> Result<std::optional<float>> {
    WEIR_TRY(const auto value, fields.number(key));
    if (!value) return std::nullopt;
    if (*value < low || *value > high) {
      return fail_at(key, ErrorCode::kCorruptFile, "{}: \"{}\" is {}; a number from {} to {} expected", path, key,
                     *value, low, high);
    }
    return static_cast<float>(*value);
  };
  WEIR_TRY(defaults.temperature, sampling("temperature", 0.0, 100.0));
  WEIR_TRY(defaults.top_p, sampling("top_p", 0.0, 1.0));
  WEIR_TRY(defaults.repetition_penalty, sampling("repetition_penalty", kMinRepetitionPenalty, kMaxRepetitionPenalty));
  WEIR_TRY(const auto top_k, fields.integer("top_k", {0, 1 << 30}));
  if (top_k) defaults.top_k = static_cast<int>(*top_k);
  return defaults;
}

Result<std::map<std::string, std::string>> templates_from_folder(const std::string& folder,
                                                                 const json& tokenizer_config) {
  std::map<std::string, std::string> templates;
  WEIR_RETURN_IF_ERROR(add_configured(templates, tokenizer_config, folder + "/tokenizer_config.json"));
  // Files of their own win over what tokenizer_config.json says.
  std::error_code error;
  if (const std::string path = folder + "/chat_template.jinja"; std::filesystem::exists(path, error)) {
    WEIR_TRY(templates[""], read_text_file(path, kMaxTemplateBytes));
  }
  for (const auto& entry : std::filesystem::directory_iterator(folder + "/additional_chat_templates", error)) {
    if (entry.path().extension() != ".jinja") continue;
    if (templates.size() >= kMaxTemplates)
      return fail(ErrorCode::kTooLarge, "{}: more than {} chat templates", folder, kMaxTemplates);
    WEIR_TRY(templates[entry.path().stem().string()], read_text_file(entry.path().string(), kMaxTemplateBytes));
  }
  return templates;
}

}  // namespace weir::load

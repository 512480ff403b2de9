#include "load/hf_config.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "load/hf_wrappers.h"

namespace weir::load {
namespace {

using nlohmann::json;

const Family* family_of(std::string_view name, std::string_view Family::HfClass::* key) {
  for (const Family* family : families()) {
    if (std::ranges::find(family->classes, name, key) != family->classes.end()) return family;
  }
  return nullptr;
}

Result<const Family*> find_family(const JsonFields& config) {
  std::string name;
  const Family* family = nullptr;
  if (const json* list = config.member("architectures"); list != nullptr) {
    if (!list->is_array() || list->empty() || !list->front().is_string()) {
      return fail_at("architectures", ErrorCode::kCorruptFile, "{}: \"architectures\" is no list of names",
                     config.file());
    }
    name = list->front().get<std::string>();
    family = family_of(name, &Family::HfClass::name);
  } else {
    WEIR_TRY(const auto type, config.string("model_type"));
    if (!type)
      return fail(ErrorCode::kCorruptFile, "{}: neither \"architectures\" nor \"model_type\" is there", config.file());
    name = *type;
    family = family_of(name, &Family::HfClass::type);
  }
  if (family != nullptr) return family;
  std::vector<std::string_view> supported;
  for (const Family* known : families()) {
    for (const Family::HfClass& one : known->classes) supported.push_back(one.name);
  }
  for (const std::string_view wrapper : wrapper_classes()) supported.push_back(wrapper);
  return unsupported_architecture(config.file(), "architecture", name.substr(0, 100), supported);
}

}  // namespace

Result<ParsedModel> spec_from_config(const json& object, const std::string& file) {
  if (!object.is_object()) return fail(ErrorCode::kCorruptFile, "{}: not a JSON object", file);
  const JsonFields whole(object, file);
  WEIR_TRY(const auto text, text_part_of(whole, object));
  const JsonFields config = text ? JsonFields(text->config, file, text->key) : whole;
  const Family* family = text ? family_of(text->type, &Family::HfClass::type) : nullptr;
  if (!text) {
    WEIR_TRY(family, find_family(config));
  }
  ParsedModel model;
  model.wrapped = text.has_value();
  model.spec.family = family->name;
  WEIR_TRY(const auto name, whole.string("_name_or_path"));
  model.spec.name = name.value_or("");
  WEIR_RETURN_IF_ERROR(family->read_config(config, model));
  WEIR_TRY(const auto skipped, config.integer("num_nextn_predict_layers", {0, kLayerRange.high}));
  model.skipped_layers = static_cast<int>(skipped.value_or(0));
  WEIR_RETURN_IF_ERROR(check_spec(model.spec, file));
  return model;
}

}  // namespace weir::load

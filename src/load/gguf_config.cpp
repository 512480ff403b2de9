#include "load/gguf_config.h"

#include <algorithm>
#include <vector>

namespace weir::load {

Result<ParsedModel> spec_from_gguf(const GgufFile& gguf, const std::string& file) {
  const std::string* architecture = gguf.get_string("general.architecture");
  if (architecture == nullptr) {
    return fail_at("general.architecture", ErrorCode::kCorruptFile,
                   "{}: metadata key \"general.architecture\" is missing or no string", file);
  }
  if (const std::string* type = gguf.get_string("general.type"); type != nullptr && *type != "model") {
    return fail(ErrorCode::kUnsupported, "{}: holds a {}, not a model", file, *type);
  }
  std::vector<std::string_view> supported;
  for (const Family* family : families()) {
    supported.insert(supported.end(), family->gguf_architectures.begin(), family->gguf_architectures.end());
    if (std::ranges::find(family->gguf_architectures, *architecture) == family->gguf_architectures.end()) continue;
    ParsedModel model;
    model.spec.family = family->name;
    const std::string* name = gguf.get_string("general.name");
    model.spec.name = name != nullptr ? *name : *architecture;
    const GgufKeys keys(gguf, *architecture, file);
    WEIR_RETURN_IF_ERROR(family->read_gguf(keys, model));
    WEIR_TRY(const auto skipped, keys.integer("nextn_predict_layers", {0, kLayerRange.high}));
    model.skipped_layers = static_cast<int>(skipped.value_or(0));
    WEIR_RETURN_IF_ERROR(check_spec(model.spec, file));
    return model;
  }
  return unsupported_architecture(file, "architecture", architecture->substr(0, 100), supported);
}

}  // namespace weir::load

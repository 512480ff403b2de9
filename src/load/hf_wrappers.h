// Models that see or hear, too: a Hugging Face folder in which a language model of a known family stands beside
// encoders of pictures or sound. Its text part is served as what it is; the rest is left in the files.
//
// A text alone is computed as by the family: only where pictures stand do these classes differ (other positions for
// the parts of a rotation, attention in both directions within a picture, features added to layers). Classes that
// compute a text otherwise, too, are not in the table.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "load/json_fields.h"

namespace weir::load {

struct TextPart {
  nlohmann::json config;  // as a folder with the language model alone would have it
  std::string type;       // its "model_type", a family's
  std::string key;        // where it stands, with a dot: "text_config." or nothing
};

// nullopt: the class is none of those. kUnsupported: the class is, but not the language model in it.
Result<std::optional<TextPart>> text_part_of(const JsonFields& config, const nlohmann::json& object);
// Names of the classes, for messages.
std::vector<std::string_view> wrapper_classes();

// `config`, or its text part where only that one has the key.
const nlohmann::json& holder_of(const char* key, const nlohmann::json& config);

// How a folder's files name the tensors of its language model.
struct HfPrefix {
  std::string layers;  // before "layers.0" and "embed_tokens"
  std::string head;    // before "weight", or what a quantised one is spread over
  bool covers(std::string_view name) const { return name.starts_with(layers) || name.starts_with(head); }
};
// By where the embedding table is, which `has` knows. `wrapped`: there may be other parts beside.
HfPrefix hf_prefix(bool wrapped, const std::function<bool(std::string_view name)>& has);

}  // namespace weir::load

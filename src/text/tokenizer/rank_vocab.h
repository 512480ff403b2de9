// What the readers of vocabularies without a tokenizer.json share: the tokens
// that tokenizer_config.json adds.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"

namespace weir::text {

// Empty text: an empty object.
Result<nlohmann::json> read_tokenizer_config(std::string_view text);

struct ConfiguredToken {
  TokenId id = 0;
  std::string content;
  bool special = false;
};
// Its "added_tokens_decoder"; ids are in range, contents are not empty.
Result<std::vector<ConfiguredToken>> configured_tokens(const nlohmann::json& config);

}  // namespace weir::text

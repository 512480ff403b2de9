// The text of a tokenizer.json -> its bulk (vocabulary, scores, merges) as plain vectors and the small rest as JSON.
//
// Read event by event: a document tree of 250,000 tokens would take ten times the memory and time. Depth is bounded.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace weir::text {

struct TokenizerDocument {
  nlohmann::json rest;                                      // everything but the lists below
  std::vector<std::pair<std::string, std::int64_t>> vocab;  // model.vocab: an object of ids, or a list (its order)
  std::vector<double> scores;                               // of a model.vocab that is a list of [piece, score]
  std::vector<std::pair<std::string, std::string>> merges;  // model.merges, "left right" or ["left", "right"]
};

Result<TokenizerDocument> read_tokenizer_document(std::string_view text);

}  // namespace weir::text

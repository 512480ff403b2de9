// The "model" of a tokenizer.json -> a WordModel.
#pragma once

#include <memory>

#include "base/result.h"
#include "text/tokenizer/bpe.h"
#include "text/tokenizer/json_document.h"
#include "text/tokenizer/pipeline.h"

namespace weir::text {

// Fails for kinds of models that weir does not have. Before the vocabulary is looked at.
Status check_json_model(const nlohmann::json& model);

// `byte_level`: words arrive as bytes, and set.forms has the tokens' bytes. The model points into `set`.
Result<std::unique_ptr<WordModel>> model_from_json(const TokenizerDocument& document, const TokenSet& set,
                                                   bool byte_level);

}  // namespace weir::text

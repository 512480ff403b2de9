// From model files to a text::Tokenizer: the one place where what load/ read and what text/ understands meet.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "load/model_files.h"
#include "text/tokenizer.h"

namespace weir::api {

// tokenizer.json where the model has one (it is the authority), else the GGUF vocabulary, else what a folder has
// instead (tekken.json, tokenizer.model, tiktoken.model).
Result<std::unique_ptr<text::Tokenizer>> load_tokenizer(const load::ModelFiles& files);

// `path`: a GGUF file with or without tensors, a tokenizer.json, or a folder that holds a vocabulary. The content tells
// which.
Result<std::unique_ptr<text::Tokenizer>> load_tokenizer_file(const std::string& path);

}  // namespace weir::api

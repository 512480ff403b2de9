// A tokenizer.json as the vocabulary keys of a GGUF file.
#pragma once

#include <string>

#include "base/result.h"
#include "load/model_files.h"
#include "quantise/gguf_writer.h"

namespace weir::quantise {

// Byte-level BPE, SentencePiece BPE with bytes to fall back to, and Unigram. The folder's own tokenizer.json is in the
// file too, and is what weir reads. The result is a remark for the user, or empty: of a splitting rule that GGUF has no
// name for other programs know nothing.
Result<std::string> add_vocabulary(const load::ModelFiles& files, int vocab, GgufMetadata& to);

}  // namespace weir::quantise

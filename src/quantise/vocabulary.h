// A tokenizer.json as the vocabulary keys of a GGUF file.
#pragma once

#include <string>

#include "base/result.h"
#include "load/model_files.h"
#include "quantise/gguf_writer.h"

namespace weir::quantise {

// Byte-level BPE, SentencePiece BPE with bytes to fall back to, and Unigram. The folder's own tokenizer.json is in the
// file too, and is what weir reads. GGUF's name for how text is split is found by trying which one gives the same ids.
// The result is a remark for the user, or empty: other programs do not know a rule that has no name.
Result<std::string> add_vocabulary(const load::ModelFiles& files, const std::string& architecture, GgufMetadata& to);

}  // namespace weir::quantise

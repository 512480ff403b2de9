// A tokenizer.json as the vocabulary keys of a GGUF file.
#pragma once

#include <string>

#include "base/result.h"
#include "load/model_files.h"
#include "quantise/gguf_writer.h"

namespace weir::quantise {

// Byte-level BPE, and SentencePiece BPE with bytes to fall back to. The result is a remark for the user, or empty: a
// splitting rule that GGUF has no name for is written down whole, which weir reads and other programs do not.
Result<std::string> add_vocabulary(const load::ModelFiles& files, int vocab, GgufMetadata& to);

}  // namespace weir::quantise

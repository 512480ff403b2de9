// ModelFiles: a model as it lies on disk, opened and checked: its spec, its weights and its text files. The one entry
// to load/.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "load/gguf.h"
#include "load/model_spec.h"
#include "load/weight_source.h"

namespace weir::load {

// What the author recommends for generation: GGUF general.sampling.* and *_token_id keys, or generation_config.json.
struct GenerationDefaults {
  std::vector<TokenId> eos_ids;  // every id that ends a reply (generation_config.json may list several)
  std::optional<float> temperature, top_p, repetition_penalty;
  std::optional<int> top_k;
};

struct ModelFiles {
  std::string path;
  std::string format;  // "GGUF v3", "safetensors"
  ModelSpec spec;
  std::unique_ptr<WeightSource> weights;
  GenerationDefaults generation;
  std::int64_t file_bytes = 0;  // of all weight files together

  // Text: one of the two vocabularies is there. api/ turns it into a text::Tokenizer (load/ knows nothing of
  // tokenizing).
  std::shared_ptr<GgufFile> gguf;  // null for a Hugging Face folder
  std::string tokenizer_json;      // contents; empty for GGUF without tokenizer.huggingface.json
  std::string tokenizer_config_json;
  std::map<std::string, std::string> chat_templates;  // "" = the default one, else by name ("tool_use")
};

struct OpenOptions {
  // Quantised weights of a folder that fit none of weir's integer types become F32 instead of floats of their scales'
  // type.
  bool exact = false;
};

// `path`: a .gguf file or a Hugging Face folder. Errors: kNotFound, kCorruptFile, kUnsupported (naming the nearest
// supported thing).
Result<ModelFiles> open_model(const std::string& path, const OpenOptions& options = {});

// The same for a GGUF file that is open already; `path` is for messages.
Result<ModelFiles> model_from_gguf(std::shared_ptr<GgufFile> gguf, const std::string& path);

}  // namespace weir::load

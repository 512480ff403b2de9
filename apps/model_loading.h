// From command line options to a model that runs: files, tokenizer, chat templates, engine.
#pragma once

#include <memory>
#include <string>

#include "api/served_model.h"
#include "apps/options.h"
#include "engine/engine.h"
#include "engine/kv_sizing.h"

namespace weir::apps {

struct LoadedModel {
  std::unique_ptr<api::ServedModel> served;
  std::unique_ptr<engine::Engine> engine;
  // For the start-up summary.
  std::string name, format, family, quantisation;
  std::int64_t context_length = 0, file_bytes = 0;
  engine::KvTokens kv_tokens;
};

// `served_name`: what requests call it; empty = the file's or folder's name.
Result<LoadedModel> load_model(const ModelOptions& options, const std::string& served_name, engine::OutputSink sink);

// "98.4 MB"
std::string human_bytes(double bytes);

}  // namespace weir::apps

// A family of models: which configurations are its own, what they mean, and how its files name its tensors.
//
// One file per family here, and one line in table.inc. A family fills a ModelSpec; the decoder that runs it is the
// same for all (model/decoder.h). The recipe is in CONTRIBUTING.md, "A model family".
#pragma once

#include <span>
#include <string_view>

#include "base/result.h"
#include "load/gguf_keys.h"
#include "load/gguf_parts.h"
#include "load/hf_parts.h"
#include "load/json_fields.h"
#include "load/model_spec.h"
#include "load/spec_rules.h"
#include "load/tensor_map.h"

namespace weir::load {

// A spec and what the model code does not need to know but the loader does.
struct ParsedModel {
  ModelSpec spec;
  Biases biases;
  int skipped_layers = 0;  // after the last one, in the file: they predict further tokens and are not run
  bool wrapped = false;    // the files hold a larger model, of which this is the language model
};

struct Family {
  // A class of the transformers library (config.json's "architectures") and its "model_type".
  struct HfClass {
    std::string_view name, type;
  };

  std::string_view name;
  std::span<const HfClass> classes = {};
  Status (*read_config)(const JsonFields& config, ParsedModel& model) = nullptr;
  void (*name_hf_tensors)(const ModelSpec& spec, TensorMap& map) = nullptr;  // null: llama's names

  std::span<const std::string_view> gguf_architectures = {};
  Status (*read_gguf)(const GgufKeys& keys, ParsedModel& model) = nullptr;
  void (*name_gguf_tensors)(const ModelSpec& spec, const GgufLayout& file, TensorMap& map) = nullptr;
  // The architecture that its GGUF files state where another family reads them; else the first of its own.
  std::string_view written_as = {};
};

// All of them, in the order of the table.
std::span<const Family* const> families();
const Family& family_named(std::string_view name);  // a ModelSpec's family
// The one that reads GGUF files of an architecture, or nullptr.
const Family* family_reading(std::string_view architecture);
// The names of a model's tensors in a GGUF file.
TensorMap gguf_names(const Family& family, const ModelSpec& spec, const GgufLayout& file);

}  // namespace weir::load

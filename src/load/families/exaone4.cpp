// EXAONE 4: norms of what each branch adds, head norms, and, in the hybrid models, three windowed layers to one that
// sees everything and has no position embedding.
#include "load/exaone_parts.h"

namespace weir::load {
namespace {

constexpr Family::HfClass kClasses[] = {{"Exaone4ForCausalLM", "exaone4"}};
constexpr std::string_view kGguf[] = {"exaone4"};

void place_norms(ModelSpec& spec) {
  spec.pre_norms = false;
  spec.post_norms = true;
}

Status read_config(const JsonFields& config, ParsedModel& model) {
  place_norms(model.spec);
  return read_hf_exaone(config, model.spec);
}

Status read_gguf(const GgufKeys& keys, ParsedModel& model) {
  place_norms(model.spec);
  return read_gguf_exaone(keys, model.spec);
}

}  // namespace

extern const Family kExaone4Family = {.name = "exaone4",
                                      .classes = kClasses,
                                      .read_config = read_config,
                                      .gguf_architectures = kGguf,
                                      .read_gguf = read_gguf};

}  // namespace weir::load

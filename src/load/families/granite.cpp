// Granite 3 (dense).
#include "load/granite_parts.h"

namespace weir::load {
namespace {

constexpr Family::HfClass kClasses[] = {{"GraniteForCausalLM", "granite"}};
constexpr std::string_view kGguf[] = {"granite"};

Status read_config(const JsonFields& config, ParsedModel& model) {
  WEIR_RETURN_IF_ERROR(read_hf_granite(config, model));
  WEIR_TRY(model.biases.ffn, read_hf_bias(config, "mlp_bias"));
  return {};
}

}  // namespace

extern const Family kGraniteFamily = {.name = "granite",
                                      .classes = kClasses,
                                      .read_config = read_config,
                                      .gguf_architectures = kGguf,
                                      .read_gguf = read_gguf_granite};

}  // namespace weir::load

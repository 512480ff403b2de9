// ERNIE 4.5 (dense): Llama with pairs of neighbours rotated, and one flag for all biases.
#include "load/families/family.h"

namespace weir::load {
namespace {

constexpr Family::HfClass kClasses[] = {{"Ernie4_5ForCausalLM", "ernie4_5"}};
constexpr std::string_view kGguf[] = {"ernie4_5"};
constexpr int kHeadDim = 128;
constexpr std::int64_t kContext = 131072;
constexpr double kTheta = 500000.0, kEps = 1e-5;

Status read_config(const JsonFields& config, ParsedModel& model) {
  WEIR_RETURN_IF_ERROR(read_hf_decoder(config,
                                       {.head_dim = kHeadDim,
                                        .context = kContext,
                                        .theta = kTheta,
                                        .eps = kEps,
                                        .tied = true,
                                        .pairing = RopeSpec::Pairing::kAdjacent},
                                       model.spec));
  WEIR_TRY(model.biases.qkv, read_hf_bias(config, "use_bias"));
  model.biases.attention_output = model.biases.ffn = model.biases.qkv;
  return {};
}

Status read_gguf(const GgufKeys& keys, ParsedModel& model) {
  WEIR_RETURN_IF_ERROR(read_gguf_decoder(keys, {.pairing = RopeSpec::Pairing::kAdjacent}, model.spec));
  model.biases = {Presence::kOptional, Presence::kOptional, Presence::kOptional};
  return {};
}

}  // namespace

extern const Family kErnie45Family = {.name = "ernie4_5",
                                      .classes = kClasses,
                                      .read_config = read_config,
                                      .gguf_architectures = kGguf,
                                      .read_gguf = read_gguf};

}  // namespace weir::load

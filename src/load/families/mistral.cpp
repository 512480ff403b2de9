// Mistral: Llama with a sliding window in every layer, where the configuration has one.
#include "load/families/family.h"

namespace weir::load {
namespace {

constexpr Family::HfClass kClasses[] = {{"MistralForCausalLM", "mistral"}};
constexpr int kWindow = 4096;

Status read_config(const JsonFields& config, ParsedModel& model) {
  WEIR_RETURN_IF_ERROR(read_hf_decoder(config, {}, model.spec));
  WEIR_TRY(const int window, read_hf_window(config, kWindow));
  for (LayerSpec& layer : model.spec.layer) layer.window = window;
  return {};
}

}  // namespace

extern const Family kMistralFamily = {
    .name = "mistral", .classes = kClasses, .read_config = read_config, .written_as = "llama"};

}  // namespace weir::load

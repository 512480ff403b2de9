#include "plan/search/parallel_plan.h"

#include <algorithm>

#include "plan/search/card_instance.h"

namespace weir::plan {
namespace {

// Without a wish: the model's own types, and those of fewer bits that the device computes at a rate of their own.
Result<std::vector<WeightTypes>> weight_types(const ModelCard& card, const Hardware& hardware,
                                              const std::vector<std::string>& names) {
  std::vector<WeightTypes> types;
  if (names.empty()) {
    types.push_back(card.types);
    const auto offer = [&](double rate, double bits, const char* name) -> Status {
      if (rate <= 0 || card.types.linear_bits <= bits) return {};
      WEIR_TRY(auto more, parse_weight_types(name));
      types.push_back(std::move(more));
      return {};
    };
    WEIR_RETURN_IF_ERROR(offer(hardware.fp8_tflops, 8.5, "fp8"));
    WEIR_RETURN_IF_ERROR(offer(hardware.fp8_tflops > 0 ? 0 : hardware.int8_tops, 8.5, "int8"));
    WEIR_RETURN_IF_ERROR(offer(hardware.fp4_tflops, 5, "nvfp4"));
  }
  for (const auto& name : names) {
    WEIR_TRY(auto type, parse_weight_types(name));
    types.push_back(std::move(type));
  }
  return types;
}

}  // namespace

Result<ParallelPlan> plan_parallel(const ModelCard& card, const Hardware& hardware, const ParallelOptions& options) {
  SearchRequest request;
  request.workload = {options.input_tokens, options.output_tokens, options.cached_fraction};
  request.max_devices = options.devices;
  if (options.devices < 1 || options.devices > 1024)
    return fail_at("devices", ErrorCode::kInvalidArgument, "devices is {}, not 1 to 1024", options.devices);
  const double inside = hardware.link_gbs > 0 ? hardware.link_gbs : hardware.pcie_gbs;
  request.links = {.domain_gbs = inside, .network_gbs = hardware.nic_gbit / 8, .domain = hardware.domain};
  request.layers = std::max(1, card.spec.layers);
  request.layouts = candidate_layouts(options.devices, hardware.domain, card.spec.has_sparse_layers());
  WEIR_TRY(const auto types, weight_types(card, hardware, options.weights));
  const auto kv_bits = options.kv_bits.empty() ? std::vector<double>{16, 8} : options.kv_bits;
  for (const auto& type : types) {
    for (const double bits : kv_bits) {
      if (!(bits >= 1 && bits <= 32))
        return fail_at("kv_bits", ErrorCode::kInvalidArgument, "kv_bits is {}, not 1 to 32", bits);
      request.precisions.push_back({type, bits});
    }
  }
  if (!options.batch_tokens.empty()) request.batch_tokens = options.batch_tokens;
  if (!options.block_sizes.empty()) request.block_sizes = options.block_sizes;
  request.max_batch = options.max_batch;
  request.aggregated = options.aggregated;
  request.disaggregated = options.disaggregated;
  request.ttft_ms = options.ttft_ms;
  request.tpot_ms = options.tpot_ms;
  request.price_per_device_hour = options.price_per_device_hour.value_or(hardware.price_per_hour);

  const auto& context = card.spec.context_length;
  if (context > 0 && request.workload.longest_context() > static_cast<double>(context)) {
    return fail_at("input", ErrorCode::kContextLengthExceeded,
                   "{:.10g} tokens in and {:.10g} out are more than the context of {}, {} tokens", options.input_tokens,
                   options.output_tokens, card.name, context);
  }
  const CardSource source(card, hardware, options.backend);
  WEIR_RETURN_IF_ERROR(source.check_backend());
  WEIR_TRY(const auto result, search_deployments(source, request));
  const SearchTitle title{card.name, hardware.name, source.origin()};
  return ParallelPlan{search_report(title, request, result, options.top), front_svg(title, result)};
}

}  // namespace weir::plan

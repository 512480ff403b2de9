// A model of passes with few numbers, to test the search without a model card: what it should find can be worked out by
// hand.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>

#include "plan/search/search.h"

namespace weir::plan {

struct ToyNumbers {
  double weights = 70e9, workspace = 2e9, usable = 72e9;  // of the instance; workspace and usable of a device
  double kv_per_token = 160e3;
  double bandwidth = 3e12, flops = 8e14, link = 4e11, fixed_s = 1e-4;
  double parameters = 70e9;
  int heads = 64;
};

class ToyModel : public InstanceModel {
 public:
  ToyModel(const ToyNumbers& n, const ParallelLayout& layout, const Precision& precision)
      : n_(n), layout_(layout), scale_(precision.weights.linear_bits / 8), kv_scale_(precision.kv_bits / 8) {}

  StepParts parts(const StepShape& shape) const override {
    const double devices = layout_.devices();
    return {.memory_s = (n_.weights * scale_ * layout_.pp + shape.context_read * kv_token() * layout_.pp) /
                        (n_.bandwidth * devices),
            .compute_s = 2 * n_.parameters * static_cast<double>(shape.tokens) * layout_.pp / (n_.flops * devices),
            .links_s = layout_.tp == 1 ? 0 : 1e-4 + static_cast<double>(shape.tokens) * 1e5 / n_.link,
            .fixed_s = n_.fixed_s * layout_.pp};
  }
  double step_s(const StepShape& shape) const override {
    const auto p = parts(shape);
    return std::max(p.memory_s, p.compute_s) + p.links_s + p.fixed_s;
  }
  DeviceBytes memory(double) const override {
    return {.usable = n_.usable, .weights = n_.weights * scale_ / layout_.devices(), .workspace = n_.workspace};
  }
  double kv_bytes(double tokens, int block_size) const override {
    return std::ceil(tokens / block_size) * block_size * kv_token() / (layout_.tp * layout_.pp * layout_.cp);
  }
  double handover_bytes(double tokens) const override { return tokens * kv_token(); }

 private:
  double kv_token() const { return n_.kv_per_token * kv_scale_; }

  ToyNumbers n_;
  ParallelLayout layout_;
  double scale_, kv_scale_;
};

class ToySource : public InstanceSource {
 public:
  explicit ToySource(const ToyNumbers& numbers = {}) : numbers_(numbers) {}
  Result<std::unique_ptr<InstanceModel>> make(const ParallelLayout& layout, const Precision& precision) const override {
    if (numbers_.heads % layout.tp != 0)
      return fail(ErrorCode::kUnsupported, "TP {} does not divide {} heads", layout.tp, numbers_.heads);
    return std::make_unique<ToyModel>(numbers_, layout, precision);
  }

 private:
  ToyNumbers numbers_;
};

inline Precision toy_precision(double bits = 8, double kv_bits = 8) {
  Precision precision;
  precision.weights = {bits, bits, bits, bits, fmt::format("int{}", bits)};
  precision.kv_bits = kv_bits;
  return precision;
}

inline SearchRequest toy_request(int devices = 8) {
  SearchRequest request;
  request.max_devices = devices;
  request.layouts = candidate_layouts(devices, 8, false);
  request.precisions = {toy_precision()};
  request.links = {.domain_gbs = 400, .network_gbs = 50, .domain = 8};
  request.layers = 80;
  request.price_per_device_hour = 3;
  return request;
}

}  // namespace weir::plan

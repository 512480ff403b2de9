#include "load/checked_weights.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <unordered_map>

namespace weir::load {
namespace {

using tensor::DType;

constexpr std::size_t kMaxNamesInError = 5;

class CheckedWeights final : public WeightSource {
 public:
  CheckedWeights(std::vector<Weight> weights, WeightInput input)
      : weights_(std::move(weights)), owner_(std::move(input.owner)), release_(std::move(input.release)) {
    for (Weight& weight : weights_) align(weight);
    for (const Weight& weight : weights_) by_name_.emplace(weight.name, &weight);
  }

  const Weight* find(std::string_view name) const override {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : found->second;
  }
  std::span<const Weight> all() const override { return weights_; }
  void release(std::span<const std::byte> bytes) override { release_(bytes); }

 private:
  // Files may put a tensor at any byte; kernels want whole elements on their own boundaries.
  void align(Weight& weight) {
    const std::size_t alignment = weight.dtype == DType::kF32 ? alignof(float) : alignof(std::uint16_t);
    if (reinterpret_cast<std::uintptr_t>(weight.data.data()) % alignment == 0) return;
    std::vector<std::uint32_t>& copy = copies_.emplace_back((weight.data.size() + 3) / 4);
    std::memcpy(copy.data(), weight.data.data(), weight.data.size());
    weight.data = std::as_bytes(std::span(copy)).first(weight.data.size());
  }

  std::vector<Weight> weights_;
  std::deque<std::vector<std::uint32_t>> copies_;
  std::unordered_map<std::string_view, const Weight*> by_name_;
  std::shared_ptr<void> owner_;
  std::function<void(std::span<const std::byte>)> release_;
};

std::string shape_text(const std::vector<std::int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

bool is_float(DType type) {
  return type == DType::kF32 || type == DType::kF16 || type == DType::kBF16;
}

Status check_tensor(const ExpectedTensor& expected, const Weight& found, const WeightInput& input) {
  if (found.shape != expected.shape) {
    return fail_at(found.name, ErrorCode::kCorruptFile, "{}: tensor \"{}\" has shape {}; the model's sizes ask for {}",
                   input.file, found.name, shape_text(found.shape), shape_text(expected.shape));
  }
  const bool usable = expected.shape.size() == 1 ? is_float(found.dtype) : found.dtype != DType::kI32;
  if (usable) return {};
  return fail_at(found.name, ErrorCode::kUnsupported,
                 "{}: tensor \"{}\" has type {}, which is not supported here; supported are {}", input.file, found.name,
                 tensor::info(found.dtype).name,
                 expected.shape.size() == 1 ? std::string("F32, F16, BF16") : input.supported_types);
}

tl::unexpected<Error> name_some(const std::string& file, std::string_view what, const std::vector<std::string>& names,
                                ErrorCode code) {
  const std::size_t shown = std::min(names.size(), kMaxNamesInError);
  return fail(code, "{}: {} {}: {}{}", file, names.size(), what,
              fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
              names.size() > shown ? ", ..." : "");
}

}  // namespace

Result<std::unique_ptr<WeightSource>> check_weights(const std::vector<ExpectedTensor>& expected, WeightInput input) {
  std::unordered_map<std::string_view, const Weight*> found;
  for (const Weight& weight : input.tensors) found.emplace(weight.name, &weight);
  std::unordered_map<std::string_view, const UnsupportedTensor*> unsupported;
  for (const UnsupportedTensor& tensor : input.unsupported) unsupported.emplace(tensor.name, &tensor);

  std::vector<Weight> weights;
  std::vector<std::string> missing;
  for (const ExpectedTensor& wanted : expected) {
    const std::string name = input.file_name(wanted.name);
    if (const auto other = unsupported.find(name); other != unsupported.end()) {
      return fail_at(name, ErrorCode::kUnsupported,
                     "{}: tensor \"{}\" has type {}, which is not supported; supported are {}", input.file, name,
                     other->second->type, input.supported_types);
    }
    const auto it = found.find(name);
    if (it == found.end()) {
      if (wanted.presence == Presence::kRequired) missing.push_back(name);
      continue;
    }
    WEIR_RETURN_IF_ERROR(check_tensor(wanted, *it->second, input));
    weights.push_back(*it->second);
    weights.back().name = wanted.name;
    found.erase(it);
  }
  if (!missing.empty())
    return name_some(input.file, "tensors of the model are missing", missing, ErrorCode::kCorruptFile);

  std::vector<std::string> extra;
  const auto note_extra = [&](const std::string& name) {
    if (!input.ignorable(name)) extra.push_back(name);
  };
  for (const Weight& weight : input.tensors) {
    if (found.contains(weight.name)) note_extra(weight.name);
  }
  for (const UnsupportedTensor& tensor : input.unsupported) note_extra(tensor.name);
  if (!extra.empty())
    return name_some(input.file, "tensors are not part of this model family", extra, ErrorCode::kUnsupported);
  return std::make_unique<CheckedWeights>(std::move(weights), std::move(input));
}

}  // namespace weir::load

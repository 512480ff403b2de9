#include "load/checked_weights.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <unordered_map>
#include <unordered_set>

#include "base/check.h"

namespace weir::load {
namespace {

using tensor::DType;

constexpr std::size_t kMaxNamesInError = 5;

// The elements of a matrix or vector that is part of a file's tensor.
struct Part {
  TensorPlace place;
  std::span<const std::byte> slice;  // of the file's tensor
};

std::int64_t slice_bytes(DType type, const TensorPlace& place) {
  return place.slice_cols == 1 ? tensor::row_bytes(type, place.slice_rows)
                               : place.slice_rows * tensor::row_bytes(type, place.slice_cols);
}

// One run of whole rows.
bool contiguous(const TensorPlace& place, std::int64_t rows) {
  return place.whole_rows() && rows <= place.rows.block;
}

class CheckedWeights final : public WeightSource {
 public:
  CheckedWeights(std::vector<Weight> weights, std::unordered_map<std::string, Part> parts, WeightInput input)
      : weights_(std::move(weights)),
        parts_(std::move(parts)),
        owner_(std::move(input.owner)),
        release_(std::move(input.release)),
        fetch_(std::move(input.fetch)) {
    for (const Weight& weight : weights_) by_name_.emplace(weight.name, &weight);
  }

  const Weight* find(std::string_view name) const override {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : found->second;
  }
  std::span<const Weight> all() const override { return weights_; }
  void release(std::span<const std::byte> bytes) override { release_(bytes); }

  Result<WeightBytes> read(const Weight& weight) const override {
    if (weight.data.empty()) return assemble(weight);
    if (fetch_) fetch_(weight.data);
    // Files may put a tensor at any byte; kernels want whole elements on their own boundaries.
    const std::size_t alignment = weight.dtype == DType::kF32 ? alignof(float) : alignof(std::uint16_t);
    if (reinterpret_cast<std::uintptr_t>(weight.data.data()) % alignment == 0) return WeightBytes{weight.data, nullptr};
    auto [bytes, to] = fresh(weight.data.size());
    std::memcpy(to, weight.data.data(), weight.data.size());
    return bytes;
  }

 private:
  static std::pair<WeightBytes, std::byte*> fresh(std::size_t size) {
    auto memory = std::make_shared<std::vector<std::uint64_t>>((size + 7) / 8);
    auto* to = reinterpret_cast<std::byte*>(memory->data());
    return {WeightBytes{{to, size}, std::move(memory)}, to};
  }

  Result<WeightBytes> assemble(const Weight& weight) const {
    const Part& part = parts_.at(weight.name);
    const TensorPlace& place = part.place;
    const bool vector = weight.shape.size() == 1;
    const std::int64_t rows = weight.shape[0], cols = vector ? 1 : weight.shape[1];
    auto [bytes, to] = fresh(static_cast<std::size_t>(weight.bytes()));
    const std::byte* from = part.slice.data();
    if (fetch_) fetch_(part.slice);
    if (place.whole_rows() && !vector) {
      const std::int64_t row_bytes = tensor::row_bytes(weight.dtype, cols);
      for (std::int64_t i = 0; i < rows; ++i)
        std::memcpy(to + i * row_bytes, from + place.rows.at(i) * row_bytes, static_cast<std::size_t>(row_bytes));
      if (fetch_) release_(part.slice);
      return bytes;
    }
    CHECK(!tensor::is_quantised(weight.dtype), "{} is {}", weight.name, tensor::info(weight.dtype).name);
    const std::int64_t size = tensor::row_bytes(weight.dtype, 1);
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < cols; ++j) {
        const std::int64_t row = place.rows.at(place.part_transposed ? j : i), col = place.part_transposed ? i : j;
        const std::int64_t at = place.slice_transposed ? col * place.slice_cols + row : row * place.slice_cols + col;
        std::memcpy(to + (i * cols + j) * size, from + at * size, static_cast<std::size_t>(size));
      }
    }
    if (fetch_) release_(part.slice);
    return bytes;
  }

  std::vector<Weight> weights_;
  std::unordered_map<std::string, Part> parts_;  // of those without bytes of their own
  std::unordered_map<std::string_view, const Weight*> by_name_;
  std::shared_ptr<void> owner_;
  std::function<void(std::span<const std::byte>)> release_, fetch_;
};

std::string shape_text(const std::vector<std::int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

bool is_float(DType type) {
  return type == DType::kF32 || type == DType::kF16 || type == DType::kBF16;
}

// Files differ in whether they name a matrix's axes of length 1.
std::vector<std::int64_t> squeezed(std::vector<std::int64_t> shape) {
  std::erase(shape, 1);
  return shape;
}

Status check_tensor(const ExpectedTensor& expected, const Weight& found, const WeightInput& input) {
  const TensorPlace& place = expected.place;
  const bool rows_differ = tensor::is_quantised(found.dtype) && found.shape.back() != place.file_shape.back();
  // Corrections of routers may be a matrix of one row (ERNIE 4.5), norms never are.
  const bool matrix = expected.shape.size() == 2 || expected.name.ends_with("exp_probs_b.bias");
  const bool same = found.shape == place.file_shape ||
                    (matrix && !rows_differ && squeezed(found.shape) == squeezed(place.file_shape));
  if (!same) {
    return fail_at(found.name, ErrorCode::kCorruptFile, "{}: tensor \"{}\" has shape {}; the model's sizes ask for {}",
                   input.file, found.name, shape_text(found.shape), shape_text(place.file_shape));
  }
  const bool plain = expected.shape.size() == 1 || !place.whole_rows();
  const bool usable = plain ? is_float(found.dtype) : found.dtype != DType::kI32;
  if (!usable) {
    return fail_at(found.name, ErrorCode::kUnsupported,
                   "{}: tensor \"{}\" has type {}, which is not supported here; supported are {}", input.file,
                   found.name, tensor::info(found.dtype).name,
                   plain ? std::string("F32, F16, BF16") : input.supported_types);
  }
  CHECK(static_cast<std::int64_t>(found.data.size()) == place.slices * slice_bytes(found.dtype, place),
        "{}: {} bytes for {} slices of {} x {}", found.name, found.data.size(), place.slices, place.slice_rows,
        place.slice_cols);
  return {};
}

// The expected part of what was found.
Weight cut(const ExpectedTensor& expected, const Weight& found, std::unordered_map<std::string, Part>& parts) {
  const TensorPlace& place = expected.place;
  Weight weight = {.name = expected.name, .dtype = found.dtype, .shape = expected.shape, .data = {}};
  const auto bytes = static_cast<std::size_t>(slice_bytes(found.dtype, place));
  const auto slice = found.data.subspan(static_cast<std::size_t>(place.slice) * bytes, bytes);
  if (contiguous(place, expected.shape[0])) {
    const std::int64_t row_bytes = static_cast<std::int64_t>(bytes) / place.slice_rows;
    weight.data =
        slice.subspan(static_cast<std::size_t>(place.rows.begin * row_bytes), static_cast<std::size_t>(weight.bytes()));
  } else {
    parts.emplace(expected.name, Part{place, slice});
  }
  return weight;
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
  std::unordered_map<std::string, Part> parts;
  std::unordered_set<std::string_view> used;
  std::vector<std::string> missing;
  for (const ExpectedTensor& wanted : expected) {
    const std::string& name = wanted.place.file_name;
    if (const auto other = unsupported.find(name); other != unsupported.end()) {
      return fail_at(name, ErrorCode::kUnsupported,
                     "{}: tensor \"{}\" has type {}, which is not supported; supported are {}", input.file, name,
                     other->second->type, input.supported_types);
    }
    const auto it = found.find(name);
    if (it == found.end()) {
      const bool is_new = missing.empty() || missing.back() != name;
      if (wanted.presence == Presence::kRequired && is_new) missing.push_back(name);
      continue;
    }
    WEIR_RETURN_IF_ERROR(check_tensor(wanted, *it->second, input));
    weights.push_back(cut(wanted, *it->second, parts));
    used.insert(it->second->name);
  }
  if (!missing.empty())
    return name_some(input.file, "tensors of the model are missing", missing, ErrorCode::kCorruptFile);

  std::vector<std::string> extra;
  const auto note_extra = [&](const std::string& name) {
    if (!used.contains(name) && !input.ignorable(name)) extra.push_back(name);
  };
  for (const Weight& weight : input.tensors) note_extra(weight.name);
  for (const UnsupportedTensor& tensor : input.unsupported) note_extra(tensor.name);
  if (!extra.empty())
    return name_some(input.file, "tensors are not part of this model family", extra, ErrorCode::kUnsupported);
  return std::make_unique<CheckedWeights>(std::move(weights), std::move(parts), std::move(input));
}

}  // namespace weir::load

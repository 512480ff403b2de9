#include "quantise/quantise.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>

#include "backend/cpu/cpu_backend.h"
#include "load/gguf_types.h"
#include "quantise/block_encoders.h"
#include "quantise/source_model.h"
#include "quantise/type_mix.h"

namespace weir::quantise {
namespace {

using std::int64_t;
using tensor::DType;

constexpr int64_t kChunkElements = int64_t{1} << 22;  // 16 MiB of floats

class Job {
 public:
  Job(backend::Backend& backend, const SourceModel& model, GgufWriter& writer)
      : backend_(backend), model_(model), writer_(writer) {}

  Status write(const SourceTensor& from, const GgufTensor& to) {
    const int64_t columns = from.shape.back(), rows = to.rows();
    const int64_t row_bytes = tensor::row_bytes(from.dtype, columns);
    const int64_t at_once = std::clamp<int64_t>(kChunkElements / columns, 1, rows);
    WEIR_TRY(const load::WeightBytes bytes, model_.read(from));
    data_ = bytes.data;
    for (int64_t first = 0; first < rows; first += at_once) {
      const int64_t count = std::min(at_once, rows - first);
      if (!from.order && from.dtype == to.dtype) {
        const auto same =
            data_.subspan(static_cast<std::size_t>(first * row_bytes), static_cast<std::size_t>(count * row_bytes));
        WEIR_RETURN_IF_ERROR(writer_.write(same));
        continue;
      }
      WEIR_RETURN_IF_ERROR(widen(from, first, count));
      WEIR_RETURN_IF_ERROR(encode(to, count));
    }
    if (bytes.memory == nullptr) model_.release(bytes.data);
    return writer_.end_tensor();
  }

 private:
  // Rows as floats, exactly as their format defines them, into floats_.
  Status widen(const SourceTensor& from, int64_t first, int64_t count) {
    const int64_t columns = from.shape.back(), row_bytes = tensor::row_bytes(from.dtype, columns);
    std::span<const std::byte> rows;
    if (from.order) {
      ordered_.resize(static_cast<std::size_t>(count * row_bytes));
      for (int64_t i = 0; i < count; ++i)
        std::copy_n(data_.data() + from.order(first + i) * row_bytes, row_bytes, ordered_.data() + i * row_bytes);
      rows = ordered_;
    } else {
      rows = data_.subspan(static_cast<std::size_t>(first * row_bytes), static_cast<std::size_t>(count * row_bytes));
    }
    floats_.resize(static_cast<std::size_t>(count * columns));
    const auto packed = backend_.pack(from.dtype, count, columns, rows);
    std::vector<TokenId> ids(static_cast<std::size_t>(count));
    std::iota(ids.begin(), ids.end(), 0);
    backend_.embed(*packed, ids, 1.0f, {floats_.data(), count, columns});
    if (std::ranges::all_of(floats_, [](float x) { return std::isfinite(x); })) return {};
    return fail_at(from.name, ErrorCode::kCorruptFile,
                   "tensor \"{}\" holds infinities or NaN, which no quantised type has", from.name);
  }

  Status encode(const GgufTensor& to, int64_t count) {
    const int64_t columns = to.shape.back(), row_bytes = tensor::row_bytes(to.dtype, columns);
    encoded_.resize(static_cast<std::size_t>(count * row_bytes));
    if (to.dtype == DType::kF16 && std::ranges::any_of(floats_, [](float x) { return std::abs(x) >= 65520; })) {
      return fail_at(to.name, ErrorCode::kUnsupported,
                     "tensor \"{}\" has values beyond 65504, the largest of F16; use BF16 or a quantised type",
                     to.name);
    }
    backend_.parallel_for(count, [&](int64_t i) {
      const auto row = std::span<const float>(floats_).subspan(static_cast<std::size_t>(i * columns),
                                                               static_cast<std::size_t>(columns));
      encode_row(to.dtype, row, encoded_.data() + i * row_bytes);
    });
    return writer_.write(encoded_);
  }

  backend::Backend& backend_;
  const SourceModel& model_;
  GgufWriter& writer_;
  std::span<const std::byte> data_;  // of the tensor under way
  std::vector<std::byte> ordered_, encoded_;
  std::vector<float> floats_;
};

Result<SourceModel> open_source(const std::string& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) return fail(ErrorCode::kNotFound, "{}: no such file or folder", path);
  return std::filesystem::is_directory(status) ? source_from_folder(path) : source_from_gguf(path);
}

// What a tensor becomes. One whose type is written already, or that no choice was made for, keeps it.
DType target_type(const FileKind& kind, const SourceModel& model, const SourceTensor& tensor, bool tied) {
  const DType type = type_for(kind, {.name = tensor.name,
                                     .shape = tensor.shape,
                                     .layers = model.layers,
                                     .queries_per_kv_head = model.queries_per_kv_head,
                                     .tied = tied});
  // Vectors and routers are as the source has them, if it has them as floats that GGUF readers take.
  if (type == DType::kF32 && (tensor.dtype == DType::kF32 || tensor.dtype == DType::kI32)) return tensor.dtype;
  return type;
}

}  // namespace

Result<QuantiseSummary> quantise(const QuantiseOptions& options,
                                 const std::function<void(int64_t, int64_t, const std::string&)>& progress) {
  const FileKind* kind = find_kind(options.kind);
  if (kind == nullptr) {
    return fail(ErrorCode::kInvalidArgument, "there is no type \"{}\" to write; the types are: {}",
                options.kind.substr(0, 40), kind_names());
  }
  GgufWriter writer;
  WEIR_RETURN_IF_ERROR(writer.open(options.out));
  WEIR_TRY(SourceModel model, open_source(options.in));
  WEIR_TRY(const auto backend, backend::cpu::make_cpu_backend({.threads = options.threads, .isa = {}, .compute = {}}));
  const bool tied = std::ranges::none_of(model.tensors, [](const auto& t) { return t.name == "output.weight"; });
  QuantiseSummary summary;
  std::vector<GgufTensor> tensors;
  for (const SourceTensor& tensor : model.tensors) {
    tensors.push_back({tensor.name, target_type(*kind, model, tensor, tied), tensor.shape});
    summary.bytes_in += tensor.weight == nullptr ? static_cast<int64_t>(tensor.data.size()) : tensor.weight->bytes();
  }
  model.metadata.add_u32("general.file_type", static_cast<std::uint32_t>(kind->file_type));
  model.metadata.add_u32("general.quantization_version", 2);
  WEIR_RETURN_IF_ERROR(writer.begin(model.metadata, tensors));
  Job job(*backend, model, writer);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    progress(static_cast<int64_t>(i) + 1, static_cast<int64_t>(tensors.size()), tensors[i].name);
    WEIR_RETURN_IF_ERROR(job.write(model.tensors[i], tensors[i]));
  }
  WEIR_RETURN_IF_ERROR(writer.finish());
  summary.tensors = static_cast<int64_t>(tensors.size());
  summary.bytes_out = writer.written();
  summary.note = model.note;
  return summary;
}

}  // namespace weir::quantise

#include "quantise/quantise.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>

#include "backend/cpu/cpu_backend.h"
#include "base/check.h"
#include "load/gguf_types.h"
#include "quantise/block_encoders.h"
#include "quantise/source_model.h"
#include "quantise/type_mix.h"

namespace weir::quantise {
namespace {

using std::int64_t;
using tensor::DType;

constexpr int64_t kChunkElements = int64_t{1} << 22;  // 16 MiB of floats

// Writes a model's tensors one after the other.
class Job {
 public:
  Job(backend::Backend& backend, const SourceModel& model, GgufWriter& writer)
      : backend_(backend), model_(model), writer_(writer) {}

  Status write(const SourceTensor& from, const GgufTensor& to) {
    if (from.parts.empty()) {
      WEIR_RETURN_IF_ERROR(write_data(from, to));
      model_.release(from.data);
      return writer_.end_tensor();
    }
    auto part = from.parts.begin();
    for (int64_t slice = 0; slice < from.slices; ++slice) {
      const auto begin = part;
      while (part != from.parts.end() && part->slice == slice) ++part;
      WEIR_RETURN_IF_ERROR(write_slice(from, to, {begin, part}));
    }
    CHECK(part == from.parts.end(), "the parts of {} are not in order", from.name);
    return writer_.end_tensor();
  }

 private:
  // A whole tensor that lies in one piece.
  Status write_data(const SourceTensor& from, const GgufTensor& to) {
    if (from.dtype == to.dtype) return writer_.write(from.data);
    const int64_t columns = from.shape.back(), rows = to.rows(), row_bytes = tensor::row_bytes(from.dtype, columns);
    const int64_t at_once = std::clamp<int64_t>(kChunkElements / columns, 1, rows);
    for (int64_t first = 0; first < rows; first += at_once) {
      const int64_t count = std::min(at_once, rows - first);
      floats_.resize(static_cast<std::size_t>(count * columns));
      const auto bytes =
          from.data.subspan(static_cast<std::size_t>(first * row_bytes), static_cast<std::size_t>(count * row_bytes));
      widen(from.dtype, bytes, {floats_.data(), count, columns});
      WEIR_RETURN_IF_ERROR(encode(to, count));
    }
    return {};
  }

  // What one row of a slice is made of.
  struct RowSource {
    std::size_t part = 0;
    int64_t row = -1;
  };

  Status write_slice(const SourceTensor& from, const GgufTensor& to, std::span<const SourcePart> parts) {
    CHECK(!parts.empty(), "{} has a slice without parts", from.name);
    std::vector<load::WeightBytes> bytes;
    bool same_type = !from.change;
    int64_t rows = 0;
    for (const SourcePart& part : parts) {
      WEIR_TRY(auto read, model_.read(*part.weight));
      bytes.push_back(std::move(read));
      same_type = same_type && part.weight->dtype == to.dtype;
      rows += part.weight->shape[0];
    }
    if (same_type && parts.size() == 1 && !parts[0].order) {
      WEIR_RETURN_IF_ERROR(writer_.write(bytes[0].data));
    } else {
      std::vector<RowSource> sources(static_cast<std::size_t>(rows));
      for (std::size_t i = 0; i < parts.size(); ++i) {
        for (int64_t row = 0; row < parts[i].weight->shape[0]; ++row)
          sources[static_cast<std::size_t>(parts[i].rows.at(row))] = {i, parts[i].order ? parts[i].order(row) : row};
      }
      CHECK(std::ranges::none_of(sources, [](const RowSource& source) { return source.row < 0; }),
            "the parts of {} leave rows out", from.name);
      WEIR_RETURN_IF_ERROR(write_rows(from, to, {parts, bytes, sources}, same_type));
    }
    for (const load::WeightBytes& each : bytes) {
      if (each.memory == nullptr) model_.release(each.data);
    }
    return {};
  }

  struct Slice {
    std::span<const SourcePart> parts;
    std::span<const load::WeightBytes> bytes;
    std::span<const RowSource> rows;
  };

  Status write_rows(const SourceTensor& from, const GgufTensor& to, const Slice& slice, bool same_type) {
    const bool vector = slice.parts[0].weight->shape.size() == 1;
    const int64_t columns = vector ? 1 : slice.parts[0].weight->shape[1],
                  rows = static_cast<int64_t>(slice.rows.size());
    const int64_t at_once = vector ? rows : std::clamp<int64_t>(kChunkElements / columns, 1, rows);
    for (int64_t first = 0; first < rows; first += at_once) {
      const auto chunk = slice.rows.subspan(static_cast<std::size_t>(first),
                                            static_cast<std::size_t>(std::min(at_once, rows - first)));
      if (same_type) {
        gathered_.clear();
        for (const RowSource& source : chunk) gather(slice, source, columns);
        WEIR_RETURN_IF_ERROR(writer_.write(gathered_));
        continue;
      }
      floats_.resize(chunk.size() * static_cast<std::size_t>(columns));
      for (std::size_t part = 0; part < slice.parts.size(); ++part) widen_part(slice, part, chunk, vector);
      if (from.change) from.change(floats_);
      WEIR_RETURN_IF_ERROR(encode(to, vector ? 1 : static_cast<int64_t>(chunk.size())));
    }
    return {};
  }

  void gather(const Slice& slice, const RowSource& source, int64_t columns) {
    const auto row_bytes = static_cast<std::size_t>(tensor::row_bytes(slice.parts[source.part].weight->dtype, columns));
    const auto row = slice.bytes[source.part].data.subspan(static_cast<std::size_t>(source.row) * row_bytes, row_bytes);
    gathered_.insert(gathered_.end(), row.begin(), row.end());
  }

  // The rows of the chunk that are of one part, as floats in their places.
  void widen_part(const Slice& slice, std::size_t part, std::span<const RowSource> chunk, bool vector) {
    const int64_t columns = vector ? 1 : slice.parts[part].weight->shape[1];
    gathered_.clear();
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < chunk.size(); ++i) {
      if (chunk[i].part != part) continue;
      places.push_back(i);
      gather(slice, chunk[i], columns);
    }
    if (places.empty()) return;
    const auto count = static_cast<int64_t>(places.size());
    widened_.resize(static_cast<std::size_t>(count * columns));
    widen(slice.parts[part].weight->dtype, gathered_, {widened_.data(), vector ? 1 : count, vector ? count : columns});
    for (std::size_t i = 0; i < places.size(); ++i)
      std::copy_n(widened_.data() + static_cast<int64_t>(i) * columns, columns,
                  floats_.data() + static_cast<int64_t>(places[i]) * columns);
  }

  // Rows as floats, exactly as their format defines them.
  void widen(DType type, std::span<const std::byte> rows, tensor::Matrix<float> to) {
    const auto packed = backend_.pack(type, to.rows, to.cols, rows);
    std::vector<TokenId> ids(static_cast<std::size_t>(to.rows));
    std::iota(ids.begin(), ids.end(), 0);
    backend_.embed(*packed, ids, 1.0f, to);
  }

  // `count` rows of floats_.
  Status encode(const GgufTensor& to, int64_t count) {
    if (!std::ranges::all_of(floats_, [](float x) { return std::isfinite(x); })) {
      return fail_at(to.name, ErrorCode::kCorruptFile,
                     "tensor \"{}\" holds infinities or NaN, which no quantised type has", to.name);
    }
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
  std::vector<std::byte> gathered_, encoded_;
  std::vector<float> floats_, widened_;
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
    summary.bytes_in += static_cast<int64_t>(tensor.data.size());
    for (const SourcePart& part : tensor.parts) summary.bytes_in += part.weight->bytes();
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

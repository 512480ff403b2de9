#include "load/hf_quantised.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "load/json_fields.h"
#include "load/quantised_rows.h"

namespace weir::load {
namespace {

using nlohmann::json;
using std::int64_t;
using tensor::DType;

constexpr int64_t kBlock = 32;
constexpr std::string_view kMethods = "fp8, mxfp4, awq, gptq, auto-round, compressed-tensors";
constexpr int64_t kGptqBits[] = {2, 3, 4, 8};

// What folders hold for quantised activations and KV, which weir does not quantise so.
constexpr std::string_view kReadOver[] = {
    ".input_scale",
    ".input_zero_point",
    ".input_global_scale",
    ".activation_scale",
    ".activation_scale_inv",
    ".output_scale",
    ".k_scale",
    ".v_scale",
    ".q_scale",
    ".prob_scale",
};

bool read_over(std::string_view name) {
  return std::ranges::any_of(kReadOver, [&](std::string_view ending) { return name.ends_with(ending); });
}

std::string shape_text(const RawTensor& tensor) {
  return fmt::format("\"{}\" {} [{}]", tensor.name, tensor.type, fmt::join(tensor.shape, ", "));
}

int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

class Deriver {
 public:
  Deriver(const JsonFields& settings, const FolderView& folder, const DeriveOptions& options)
      : settings_(settings), folder_(folder), options_(options) {
    for (const Weight& weight : folder.tensors)
      raw_.emplace(weight.name,
                   RawTensor{weight.name, std::string(tensor::info(weight.dtype).name), weight.shape, weight.data});
    for (const UnsupportedTensor& t : folder.unsupported)
      raw_.emplace(t.name, RawTensor{t.name, t.type, t.shape, t.data});
    out_.derived = std::make_shared<DerivedTensors>(options.release);
  }

  Result<FolderTensors> run() {
    WEIR_TRY(const auto method, settings_.string("quant_method"));
    const Method derive = method_of(method.value_or(""));
    if (derive == nullptr) return unsupported_method(method.value_or(""));
    WEIR_RETURN_IF_ERROR((this->*derive)());
    for (const auto& [name, tensor] : raw_) {
      if (read_over(name)) used_.insert(name);
    }
    for (const Weight& weight : folder_.tensors) {
      if (!used_.contains(weight.name)) out_.tensors.push_back(weight);
    }
    for (const UnsupportedTensor& tensor : folder_.unsupported) {
      if (!used_.contains(tensor.name)) out_.unsupported.push_back(tensor);
    }
    WEIR_RETURN_IF_ERROR(out_.derived->seal());
    std::ranges::copy(out_.derived->tensors(), std::back_inserter(out_.tensors));
    return std::move(out_);
  }

 private:
  using Method = Status (Deriver::*)();

  static Method method_of(std::string_view name) {
    if (name == "fp8" || name == "fbgemm_fp8" || name == "modelopt") return &Deriver::float8;
    if (name == "mxfp4") return &Deriver::mxfp4;
    if (name == "awq") return &Deriver::awq;
    if (name == "gptq") return &Deriver::gptq;
    if (name == "auto-round" || name == "auto_round") return &Deriver::auto_round;
    if (name == "compressed-tensors") return &Deriver::compressed;
    return nullptr;
  }

  tl::unexpected<Error> unsupported_method(std::string_view method) const {
    return fail_at("quantization_config", ErrorCode::kUnsupported,
                   "{}: weights quantised with \"{}\" are not supported; supported are {}", settings_.file(), method,
                   kMethods);
  }
  tl::unexpected<Error> unsupported(std::string_view what) const {
    return fail_at("quantization_config", ErrorCode::kUnsupported, "{}: quantization_config: {}", settings_.file(),
                   what);
  }
  template <class... Tensors>
  tl::unexpected<Error> do_not_fit(const RawTensor& first, const Tensors&... others) const {
    std::string text = shape_text(first);
    ((text += ", " + shape_text(others)), ...);
    return fail_at(first.name, ErrorCode::kCorruptFile,
                   "{}: these parts of a quantised weight do not fit each other: {}", settings_.file(), text);
  }

  // Names that end so, without the ending.
  std::vector<std::string> stems(std::string_view ending) const {
    std::vector<std::string> found;
    for (const auto& [name, tensor] : raw_) {
      if (name.ends_with(ending)) found.push_back(name.substr(0, name.size() - ending.size()));
    }
    return found;
  }

  const RawTensor* find(const std::string& name) {
    const auto found = raw_.find(name);
    if (found == raw_.end()) return nullptr;
    used_.insert(name);
    return &found->second;
  }

  Result<const RawTensor*> need(const std::string& name, const std::string& of) {
    const RawTensor* found = find(name);
    if (found == nullptr)
      return fail_at(name, ErrorCode::kCorruptFile, "{}: tensor \"{}\" is missing beside \"{}\"", settings_.file(),
                     name, of);
    return found;
  }

  static bool is(const RawTensor& tensor, std::string_view type, std::size_t rank) {
    return tensor.type == type && tensor.shape.size() == rank &&
           std::ranges::all_of(tensor.shape, [](int64_t n) { return n > 0; });
  }
  static bool is_floats(const RawTensor& tensor) {
    return FloatView::can_read(tensor.type) && std::ranges::all_of(tensor.shape, [](int64_t n) { return n > 0; });
  }
  static int64_t count(const RawTensor& tensor) {
    int64_t n = 1;
    for (const int64_t extent : tensor.shape) n *= extent;
    return n;
  }

  // The type for a matrix's codes: the smallest that has its numbers.
  DType dtype_of(const CodeMatrix& matrix, const std::string& name, const RawTensor& scales) const {
    if (options_.as_floats(name)) return DType::kF32;
    if (!matrix.group_of.empty() && !options_.exact)
      return scales.type == "F16" ? DType::kF16 : scales.type == "BF16" ? DType::kBF16 : DType::kF32;
    if (!matrix.group_of.empty()) return DType::kF32;
    const bool blocks = matrix.cols % kBlock == 0 && (matrix.groups == 1 || matrix.group_size % kBlock == 0);
    return !blocks ? DType::kF32 : matrix.bits <= 4 ? DType::kInt4 : DType::kInt8;
  }

  void add(const std::string& name, std::unique_ptr<CodeMatrix> matrix, const RawTensor& scales) {
    const DType dtype = dtype_of(*matrix, name, scales);
    std::vector<int64_t> shape = {matrix->rows, matrix->cols};
    out_.derived->add(name, dtype, std::move(shape), code_rows(std::move(matrix), dtype));
  }

  // Whether the tool was told other numbers for some modules: GPTQModel's and AutoRound's keys.
  bool has_own_numbers() const { return settings_.has("dynamic") || settings_.has("extra_config"); }

  // Groups of the stated size; -1 or none: all inputs are one. Modules with numbers of their own have equal groups.
  Status set_groups(CodeMatrix& matrix, int64_t groups, int64_t group_size, const RawTensor& codes,
                    const RawTensor& scales) const {
    matrix.groups = groups;
    matrix.group_size = group_size > 0 ? group_size : ceil_div(matrix.cols, groups);
    if (ceil_div(matrix.cols, matrix.group_size) != groups && has_own_numbers() && matrix.cols % groups == 0)
      matrix.group_size = matrix.cols / groups;
    if (ceil_div(matrix.cols, matrix.group_size) != groups) return do_not_fit(codes, scales);
    return {};
  }

  Status read_order(CodeMatrix& matrix, const RawTensor& order, const RawTensor& codes) {
    if (!is(order, "I32", 1) || order.shape[0] != matrix.cols) return do_not_fit(order, codes);
    std::vector<std::int32_t> group_of(static_cast<std::size_t>(matrix.cols));
    std::memcpy(group_of.data(), order.data.data(), order.data.size());
    bool plain = true;
    for (std::size_t i = 0; i < group_of.size(); ++i) {
      if (group_of[i] < 0 || group_of[i] >= matrix.groups) {
        return fail_at(order.name, ErrorCode::kCorruptFile, "{}: \"{}\"[{}] is {}; there are {} groups",
                       settings_.file(), order.name, i, group_of[i], matrix.groups);
      }
      plain = plain && group_of[i] == static_cast<int64_t>(i) / matrix.group_size;
    }
    if (!plain) matrix.group_of = std::move(group_of);
    return {};
  }

  Status float8() {
    std::vector<const RawTensor*> weights;
    for (const auto& [name, tensor] : raw_) {
      if (tensor.type == "F8_E4M3") weights.push_back(&tensor);
    }
    WEIR_TRY(const auto block, block_size());
    for (const RawTensor* codes : weights) WEIR_RETURN_IF_ERROR(add_float8(*codes, block));
    return {};
  }

  // "weight_block_size": [128, 128]; {0, 0} without.
  Result<std::pair<int64_t, int64_t>> block_size() const {
    const json* size = settings_.member("weight_block_size");
    if (size == nullptr) return std::pair<int64_t, int64_t>(0, 0);
    const auto valid = [](const json& n) { return n.is_number_integer() && n > 0 && n <= (1 << 20); };
    if (!size->is_array() || size->size() != 2 || !valid((*size)[0]) || !valid((*size)[1]))
      return fail_at("weight_block_size", ErrorCode::kCorruptFile, "{}: weight_block_size is {}; two numbers expected",
                     settings_.file(), size->dump().substr(0, 80));
    return std::pair<int64_t, int64_t>((*size)[0].get<int64_t>(), (*size)[1].get<int64_t>());
  }

  Status add_float8(const RawTensor& codes, std::pair<int64_t, int64_t> block) {
    const RawTensor* scales = find(codes.name + "_scale_inv");
    if (scales == nullptr) {
      WEIR_TRY(scales, need(codes.name + "_scale", codes.name));
    }
    used_.insert(codes.name);
    const std::size_t rank = codes.shape.size();
    if (rank < 2 || rank > 3 || !is(codes, "F8_E4M3", rank) || !is_floats(*scales)) return do_not_fit(codes, *scales);
    Float8Tensors t;
    t.codes = codes;
    t.scales = *scales;
    t.rows = codes.shape[rank - 2];
    t.cols = codes.shape[rank - 1];
    const int64_t matrices = rank == 3 ? codes.shape[0] : 1, scale_count = count(*scales);
    t.one_scale = scale_count == 1;
    const bool per_row = scale_count == matrices * t.rows && (scales->shape.size() == 1 || scales->shape.back() == 1);
    if (t.one_scale || per_row) {
      t.scale_rows = t.rows;
      t.block_rows = 1;
      t.block_cols = t.cols;
    } else if (scale_count == matrices) {
      t.block_rows = t.rows;
      t.block_cols = t.cols;
    } else {
      if (scales->shape.size() != rank || (rank == 3 && scales->shape[0] != matrices))
        return do_not_fit(codes, *scales);
      t.scale_rows = scales->shape[rank - 2];
      t.scale_cols = scales->shape[rank - 1];
      t.block_rows = block.first > 0 ? block.first : ceil_div(t.rows, t.scale_rows);
      t.block_cols = block.second > 0 ? block.second : ceil_div(t.cols, t.scale_cols);
      if (ceil_div(t.rows, t.block_rows) != t.scale_rows || ceil_div(t.cols, t.block_cols) != t.scale_cols)
        return do_not_fit(codes, *scales);
    }
    const bool blocks = t.cols % kBlock == 0 && (t.scale_cols == 1 || t.block_cols % kBlock == 0);
    const DType dtype = blocks && !options_.as_floats(codes.name) ? DType::kFloat8 : DType::kF32;
    out_.derived->add(codes.name, dtype, codes.shape, float8_rows(t, dtype));
    return {};
  }

  Status mxfp4() {
    for (const std::string& stem : stems("_blocks")) {
      WEIR_TRY(const RawTensor* blocks, need(stem + "_blocks", stem));
      WEIR_TRY(const RawTensor* scales, need(stem + "_scales", blocks->name));
      const std::size_t rank = scales->shape.size();
      if (rank < 2 || rank > 3 || !is(*scales, "U8", rank) || !is(*blocks, "U8", rank + 1) ||
          blocks->shape.back() != 16 || !std::ranges::equal(scales->shape, std::span(blocks->shape).first(rank)))
        return do_not_fit(*blocks, *scales);
      std::vector<int64_t> shape = scales->shape;
      const int64_t per_row = shape.back();
      shape.back() = per_row * kBlock;
      out_.derived->add(stem, DType::kMXFP4, std::move(shape), mxfp4_rows(*blocks, *scales, per_row));
    }
    return {};
  }

  Result<int64_t> number_of_bits(const char* key) const {
    WEIR_TRY(const auto bits, settings_.integer(key, {1, 64}));
    return bits.value_or(4);
  }
  Result<int64_t> stated_group_size() const {
    WEIR_TRY(const auto size, settings_.integer("group_size", {-1, 1 << 20}));
    return size.value_or(-1);
  }

  Status awq() {
    WEIR_TRY(const auto bits, number_of_bits(settings_.has("bits") ? "bits" : "w_bit"));
    WEIR_TRY(const auto version, settings_.string("version"));
    if (bits != 4) return unsupported(fmt::format("AWQ with {} bits; 4 are supported", bits));
    std::string lower = version.value_or("gemm");
    std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    if (lower != "gemm")
      return unsupported(fmt::format("AWQ version \"{}\"; \"gemm\" is supported", lower.substr(0, 40)));
    WEIR_TRY(const auto group_size, stated_group_size());
    for (const std::string& stem : stems(".qweight")) {
      WEIR_TRY(const RawTensor* codes, need(stem + ".qweight", stem));
      WEIR_TRY(const RawTensor* zeros, need(stem + ".qzeros", codes->name));
      WEIR_TRY(const RawTensor* scales, need(stem + ".scales", codes->name));
      if (!is(*codes, "I32", 2) || !is(*zeros, "I32", 2) || !is_floats(*scales) || scales->shape.size() != 2 ||
          zeros->shape[0] != scales->shape[0] || codes->shape[1] != zeros->shape[1] ||
          codes->shape[1] * 8 != scales->shape[1])
        return do_not_fit(*codes, *zeros, *scales);
      auto matrix = awq_matrix(*codes, *zeros, *scales);
      WEIR_RETURN_IF_ERROR(set_groups(*matrix, scales->shape[0], group_size, *codes, *scales));
      add(stem + ".weight", std::move(matrix), *scales);
    }
    return {};
  }

  // AutoRound writes the layouts of the other tools.
  Status auto_round() {
    WEIR_TRY(const auto stated, settings_.string("packing_format"));
    const std::string packing = stated.value_or("auto_round:auto_gptq");
    if (packing.ends_with("auto_gptq")) return gptq();
    if (packing.ends_with("auto_awq")) return awq();
    return unsupported(fmt::format("packing_format \"{}\"; auto_round:auto_gptq and auto_round:auto_awq are supported",
                                   packing.substr(0, 40)));
  }

  // The bits of one weight: those stated where they fit its parts, else (tools can give modules bits of their own) the
  // only ones that do; 0: none.
  static int64_t gptq_bits(const RawTensor& codes, const RawTensor& zeros, const RawTensor& scales, int64_t stated) {
    const auto fits = [&](int64_t bits) {
      return zeros.shape[1] == ceil_div(scales.shape[1] * bits, 32) && codes.shape[0] * 32 % bits == 0;
    };
    if (fits(stated)) return stated;
    if (std::ranges::count_if(kGptqBits, fits) != 1) return 0;
    return *std::ranges::find_if(kGptqBits, fits);
  }

  Status gptq() {
    WEIR_TRY(const auto stated_bits, number_of_bits("bits"));
    if (std::ranges::find(kGptqBits, stated_bits) == std::end(kGptqBits))
      return unsupported(fmt::format("GPTQ with {} bits; {} are supported", stated_bits, fmt::join(kGptqBits, ", ")));
    WEIR_TRY(const auto format, settings_.string("checkpoint_format"));
    const std::string layout = format.value_or("gptq");
    if (layout != "gptq" && layout != "gptq_v2")
      return unsupported(
          fmt::format("GPTQ checkpoint_format \"{}\"; gptq and gptq_v2 are supported", layout.substr(0, 40)));
    WEIR_TRY(const auto group_size, stated_group_size());
    for (const std::string& stem : stems(".qweight")) {
      WEIR_TRY(const RawTensor* codes, need(stem + ".qweight", stem));
      WEIR_TRY(const RawTensor* zeros, need(stem + ".qzeros", codes->name));
      WEIR_TRY(const RawTensor* scales, need(stem + ".scales", codes->name));
      if (!is(*codes, "I32", 2) || !is(*zeros, "I32", 2) || !is_floats(*scales) || scales->shape.size() != 2 ||
          zeros->shape[0] != scales->shape[0] || codes->shape[1] != scales->shape[1])
        return do_not_fit(*codes, *zeros, *scales);
      const int64_t bits = gptq_bits(*codes, *zeros, *scales, stated_bits);
      if (bits == 0) return do_not_fit(*codes, *zeros, *scales);
      auto matrix =
          gptq_matrix({.codes = *codes, .zeros = *zeros, .scales = *scales, .zeros_less_one = layout == "gptq"},
                      static_cast<int>(bits));
      WEIR_RETURN_IF_ERROR(set_groups(*matrix, scales->shape[0], group_size, *codes, *scales));
      if (const RawTensor* order = find(stem + ".g_idx")) WEIR_RETURN_IF_ERROR(read_order(*matrix, *order, *codes));
      add(stem + ".weight", std::move(matrix), *scales);
    }
    return {};
  }

  // The numbers of bits that the groups of modules have.
  Result<std::set<int64_t>> compressed_bits() const {
    std::set<int64_t> bits;
    const json* groups = settings_.member("config_groups");
    if (groups == nullptr || !groups->is_object()) return bits;
    for (const auto& [name, group] : groups->items()) {
      const auto weights = group.is_object() ? group.find("weights") : group.end();
      if (!group.is_object() || weights == group.end() || !weights->is_object()) continue;
      const auto number = weights->find("num_bits");
      if (number == weights->end() || !number->is_number_integer() || *number < 1 || *number > 16)
        return fail_at("config_groups", ErrorCode::kCorruptFile,
                       "{}: config_groups.{}.weights has no num_bits from 1 to 16", settings_.file(),
                       name.substr(0, 40));
      bits.insert(number->get<int64_t>());
    }
    return bits;
  }

  Status compressed() {
    for (const char* key : {"sparsity_config", "transform_config"}) {
      const json* value = settings_.member(key);
      if (value != nullptr && value->is_object() && !value->empty() &&
          value->value("format", json("")) != json("dense"))
        return unsupported(fmt::format("compressed-tensors with a {}", key));
    }
    WEIR_TRY(const auto bits, compressed_bits());
    for (const std::string& stem : stems(".weight_packed")) WEIR_RETURN_IF_ERROR(add_packed(stem, bits));
    for (const std::string& stem : stems(".weight")) {
      const RawTensor& codes = raw_.at(stem + ".weight");
      if (codes.type == "I8") WEIR_RETURN_IF_ERROR(add_bytes(stem));
    }
    return float8();
  }

  // The size that some group of modules states and that gives so many groups; 0: none does.
  int64_t stated_size_of(int64_t cols, int64_t count) const {
    const json* groups = settings_.member("config_groups");
    if (groups == nullptr || !groups->is_object()) return 0;
    for (const json& group : *groups) {
      const json size = group.is_object() ? group.value("weights", json::object()).value("group_size", json()) : json();
      if (size.is_number_integer() && size > 0 && size <= (1 << 20) && ceil_div(cols, size.get<int64_t>()) == count)
        return size.get<int64_t>();
    }
    return 0;
  }

  Status add_packed(const std::string& stem, const std::set<int64_t>& stated_bits) {
    WEIR_TRY(const RawTensor* codes, need(stem + ".weight_packed", stem));
    WEIR_TRY(const RawTensor* extents, need(stem + ".weight_shape", codes->name));
    if (codes->type == "U8") return unsupported("4-bit floats (nvfp4-pack-quantized)");
    if (!is(*codes, "I32", 2) || extents->shape != std::vector<int64_t>{2} ||
        (extents->type != "I64" && extents->type != "I32"))
      return do_not_fit(*codes, *extents);
    CompressedTensors t;
    t.codes = *codes;
    t.packed = true;
    for (int i = 0; i < 2; ++i) {
      int64_t extent = 0;
      const std::size_t size = extents->type == "I64" ? 8 : 4;
      std::memcpy(&extent, extents->data.data() + size * static_cast<std::size_t>(i), size);
      (i == 0 ? t.rows : t.cols) = extent;
    }
    std::vector<int> fitting;
    for (const int64_t bits : stated_bits) {
      if (bits <= 8 && t.cols > 0 && t.cols <= INT64_MAX / 8 && ceil_div(t.cols * bits, 32) == codes->shape[1])
        fitting.push_back(static_cast<int>(bits));
    }
    if (t.rows != codes->shape[0] || fitting.size() != 1) {
      return fail_at(codes->name, ErrorCode::kCorruptFile, "{}: {} is no packing of {} x {} weights of {} bits",
                     settings_.file(), shape_text(*codes), t.rows, t.cols, fmt::join(stated_bits, " or "));
    }
    return add_compressed(stem, t, fitting[0]);
  }

  Status add_bytes(const std::string& stem) {
    WEIR_TRY(const RawTensor* codes, need(stem + ".weight", stem));
    if (!is(*codes, "I8", 2)) return do_not_fit(*codes);
    CompressedTensors t;
    t.codes = *codes;
    t.rows = codes->shape[0];
    t.cols = codes->shape[1];
    return add_compressed(stem, t, 8);
  }

  Status add_compressed(const std::string& stem, CompressedTensors t, int bits) {
    WEIR_TRY(const RawTensor* scales, need(stem + ".weight_scale", t.codes.name));
    if (!is_floats(*scales) || scales->shape.size() > 2) return do_not_fit(t.codes, *scales);
    const bool one = count(*scales) == 1 && t.rows > 0;
    if (!one && (scales->shape.size() != 2 || scales->shape[0] != t.rows)) return do_not_fit(t.codes, *scales);
    const int64_t groups = one ? 1 : scales->shape[1];
    t.scales = *scales;
    if (one) t.scales.shape = {1};
    if (const RawTensor* zeros = find(stem + ".weight_zero_point")) {
      t.zeros = *zeros;
      t.has_zeros = true;
      t.packed_zeros = zeros->type == "I32";
      const bool fits = t.packed_zeros ? !one && is(*zeros, "I32", 2) && zeros->shape[1] == groups &&
                                             zeros->shape[0] == ceil_div(t.rows * bits, 32)
                                       : zeros->type == "I8" && count(*zeros) == count(*scales);
      if (!fits) return do_not_fit(t.codes, *scales, *zeros);
    }
    const RawTensor codes = t.codes;
    auto matrix = compressed_matrix(t, bits);
    WEIR_RETURN_IF_ERROR(set_groups(*matrix, groups, groups > 1 ? stated_size_of(t.cols, groups) : 0, codes, *scales));
    if (const RawTensor* order = find(stem + ".weight_g_idx")) WEIR_RETURN_IF_ERROR(read_order(*matrix, *order, codes));
    add(stem + ".weight", std::move(matrix), *scales);
    return {};
  }

  const JsonFields& settings_;
  const FolderView& folder_;
  const DeriveOptions& options_;
  std::map<std::string, RawTensor> raw_;
  std::set<std::string> used_;
  FolderTensors out_;
};

}  // namespace

Result<FolderTensors> derive_quantised(const json& config, const std::string& file, const FolderView& folder,
                                       const DeriveOptions& options) {
  const JsonFields fields(config, file);
  WEIR_TRY(const auto settings, fields.object("quantization_config"));
  if (!settings) {
    FolderTensors plain;
    const auto is_part = [](const auto& tensor) { return !read_over(tensor.name); };
    std::ranges::copy_if(folder.tensors, std::back_inserter(plain.tensors), is_part);
    std::ranges::copy_if(folder.unsupported, std::back_inserter(plain.unsupported), is_part);
    return plain;
  }
  return Deriver(*settings, folder, options).run();
}

}  // namespace weir::load

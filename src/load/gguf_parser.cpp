#include "load/gguf_parser.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <set>
#include <utility>

#include "load/byte_reader.h"
#include "load/gguf_types.h"

namespace weir::load {
namespace {

// The numbers of the format's value types.
enum ValueType : std::int32_t { kU8, kI8, kU16, kI16, kU32, kI32, kF32, kBool, kString, kArray, kU64, kI64, kF64 };

constexpr std::uint32_t kDefaultAlignment = 32;
constexpr std::uint32_t kMaxDims = 4;
constexpr std::size_t kMaxKeyBytes = 65535;       // the specification's limit
constexpr std::size_t kMaxTensorNameBytes = 255;  // names in the wild stay below 64
// The smallest encodings, which bound how many entries the rest of a file can hold.
constexpr std::size_t kMinPairBytes = 8 + 1 + 4 + 1;
constexpr std::size_t kMinTensorBytes = 8 + 1 + 4 + 4 + 8;

struct TensorEntry {
  std::string_view name;
  std::vector<std::int64_t> shape;  // outermost first
  std::int32_t type_id = 0;
  const GgufType* type = nullptr;  // null: unknown
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

class Parser {
 public:
  Parser(std::span<const std::byte> bytes, std::string_view file) : bytes_(bytes), in_(bytes, file) {}

  Result<GgufContents> run() {
    WEIR_RETURN_IF_ERROR(header());
    for (std::uint64_t i = 0; i < pair_count_; ++i) WEIR_RETURN_IF_ERROR(pair(i));
    WEIR_RETURN_IF_ERROR(read_alignment());
    entries_.reserve(tensor_count_);
    for (std::uint64_t i = 0; i < tensor_count_; ++i) {
      WEIR_TRY(auto entry, tensor(i));
      entries_.push_back(std::move(entry));
    }
    WEIR_RETURN_IF_ERROR(place(entries_));
    return std::move(out_);
  }

  // After run() failed.
  GgufContents what_was_read() {
    for (TensorEntry& entry : entries_)
      out_.unsupported.push_back(
          {std::string(entry.name), type_name(entry), std::move(entry.shape), static_cast<std::int64_t>(entry.bytes)});
    return std::move(out_);
  }

 private:
  template <class... Args>
  tl::unexpected<Error> corrupt(fmt::format_string<Args...> format, Args&&... args) const {
    return fail(ErrorCode::kCorruptFile, "{}: {}", in_.file(), fmt::format(format, std::forward<Args>(args)...));
  }

  static std::string type_name(const TensorEntry& entry) {
    return entry.type == nullptr ? fmt::format("{} (unknown to weir)", entry.type_id) : std::string(entry.type->name);
  }

  Status header() {
    WEIR_TRY(const auto magic, in_.number<std::uint32_t>("the magic number"));
    if (magic != 0x46554747) return corrupt("not a GGUF file: it starts with 0x{:08x} instead of \"GGUF\"", magic);
    WEIR_TRY(out_.version, in_.number<std::uint32_t>("the version"));
    if ((out_.version & 0xffff) == 0 && out_.version != 0) {
      return fail(ErrorCode::kUnsupported, "{}: a big-endian GGUF file (version 0x{:08x}); convert it to little-endian",
                  in_.file(), out_.version);
    }
    if (out_.version != 2 && out_.version != 3) {
      return fail(ErrorCode::kUnsupported, "{}: GGUF version {}; weir reads versions 2 and 3", in_.file(),
                  out_.version);
    }
    WEIR_TRY(tensor_count_, in_.number<std::uint64_t>("the number of tensors"));
    WEIR_TRY(pair_count_, in_.number<std::uint64_t>("the number of metadata entries"));
    WEIR_RETURN_IF_ERROR(in_.expect("the number of metadata entries", pair_count_, kMinPairBytes));
    return in_.expect("the number of tensors", tensor_count_, kMinTensorBytes);
  }

  Status pair(std::uint64_t index) {
    WEIR_TRY(const auto key, in_.string(fmt::format("the key of metadata entry {}", index)));
    if (key.empty() || key.size() > kMaxKeyBytes) {
      return corrupt("the key of metadata entry {} has {} bytes; 1 to {} are allowed", index, key.size(), kMaxKeyBytes);
    }
    WEIR_TRY(const auto type, in_.number<std::int32_t>(key));
    WEIR_TRY(auto value, type == kArray ? array(key) : scalar(key, type));
    if (!out_.metadata.emplace(key, std::move(value)).second) return corrupt("metadata key \"{}\" appears twice", key);
    return {};
  }

  template <class T>
  Result<GgufValue> integer(std::string_view key) {
    WEIR_TRY(const auto value, in_.number<T>(key));
    if (!std::in_range<std::int64_t>(value)) {
      return corrupt("\"{}\" is {}; integers above {} are refused", key, value,
                     std::numeric_limits<std::int64_t>::max());
    }
    return GgufValue(static_cast<std::int64_t>(value));
  }

  template <class T>
  Result<GgufValue> real(std::string_view key) {
    WEIR_TRY(const auto value, in_.number<T>(key));
    return GgufValue(static_cast<double>(value));
  }

  Result<bool> boolean(std::string_view key) {
    WEIR_TRY(const auto value, in_.number<std::uint8_t>(key));
    if (value > 1) return corrupt("\"{}\" is a boolean of value {}; 0 or 1 expected", key, value);
    return value == 1;
  }

  Result<GgufValue> scalar(std::string_view key, std::int32_t type) {
    switch (type) {
      case kU8:
        return integer<std::uint8_t>(key);
      case kI8:
        return integer<std::int8_t>(key);
      case kU16:
        return integer<std::uint16_t>(key);
      case kI16:
        return integer<std::int16_t>(key);
      case kU32:
        return integer<std::uint32_t>(key);
      case kI32:
        return integer<std::int32_t>(key);
      case kU64:
        return integer<std::uint64_t>(key);
      case kI64:
        return integer<std::int64_t>(key);
      case kF32:
        return real<float>(key);
      case kF64:
        return real<double>(key);
      case kBool: {
        WEIR_TRY(const bool value, boolean(key));
        return GgufValue(value);
      }
      case kString: {
        WEIR_TRY(const auto text, in_.string(key));
        return GgufValue(std::string(text));
      }
      default:
        return corrupt("\"{}\" has value type {}; types 0 to 12 exist", key, type);
    }
  }

  template <class T>
  Result<GgufValue> integers(std::string_view key, std::uint64_t count) {
    WEIR_RETURN_IF_ERROR(in_.expect(key, count, sizeof(T)));
    std::vector<std::int64_t> values(count);
    for (auto& v : values) {
      WEIR_TRY(const auto value, in_.number<T>(key));
      if (!std::in_range<std::int64_t>(value))
        return corrupt("\"{}\" holds {}, which does not fit 63 bits", key, value);
      v = static_cast<std::int64_t>(value);
    }
    return GgufValue(std::move(values));
  }

  template <class T>
  Result<GgufValue> reals(std::string_view key, std::uint64_t count) {
    WEIR_RETURN_IF_ERROR(in_.expect(key, count, sizeof(T)));
    std::vector<double> values(count);
    for (auto& v : values) {
      WEIR_TRY(const auto value, in_.number<T>(key));
      v = static_cast<double>(value);
    }
    return GgufValue(std::move(values));
  }

  Result<GgufValue> booleans(std::string_view key, std::uint64_t count) {
    WEIR_RETURN_IF_ERROR(in_.expect(key, count, 1));
    std::vector<bool> values;
    values.reserve(count);
    for (std::uint64_t i = 0; i < count; ++i) {
      WEIR_TRY(const bool value, boolean(key));
      values.push_back(value);
    }
    return GgufValue(std::move(values));
  }

  Result<GgufValue> strings(std::string_view key, std::uint64_t count) {
    WEIR_RETURN_IF_ERROR(in_.expect(key, count, sizeof(std::uint64_t)));
    std::vector<std::string> values;
    values.reserve(count);
    for (std::uint64_t i = 0; i < count; ++i) {
      WEIR_TRY(const auto text, in_.string(key));
      values.emplace_back(text);
    }
    return GgufValue(std::move(values));
  }

  Result<GgufValue> array(std::string_view key) {
    WEIR_TRY(const auto type, in_.number<std::int32_t>(key));
    WEIR_TRY(const auto count, in_.number<std::uint64_t>(key));
    switch (type) {
      case kU8:
        return integers<std::uint8_t>(key, count);
      case kI8:
        return integers<std::int8_t>(key, count);
      case kU16:
        return integers<std::uint16_t>(key, count);
      case kI16:
        return integers<std::int16_t>(key, count);
      case kU32:
        return integers<std::uint32_t>(key, count);
      case kI32:
        return integers<std::int32_t>(key, count);
      case kU64:
        return integers<std::uint64_t>(key, count);
      case kI64:
        return integers<std::int64_t>(key, count);
      case kF32:
        return reals<float>(key, count);
      case kF64:
        return reals<double>(key, count);
      case kBool:
        return booleans(key, count);
      case kString:
        return strings(key, count);
      case kArray:
        return corrupt("\"{}\" is an array of arrays, which GGUF files do not contain", key);
      default:
        return corrupt("\"{}\" is an array of value type {}; types 0 to 12 exist", key, type);
    }
  }

  Status read_alignment() {
    const auto found = out_.metadata.find("general.alignment");
    if (found == out_.metadata.end()) return {};
    const auto* value = std::get_if<std::int64_t>(&found->second);
    if (value == nullptr) return corrupt("\"general.alignment\" is not an integer");
    if (*value <= 0 || *value > std::numeric_limits<std::uint32_t>::max() ||
        !std::has_single_bit(static_cast<std::uint64_t>(*value))) {
      return corrupt("\"general.alignment\" is {}; a power of two below 2^32 expected", *value);
    }
    alignment_ = static_cast<std::uint64_t>(*value);
    return {};
  }

  Result<TensorEntry> tensor(std::uint64_t index) {
    TensorEntry entry;
    WEIR_TRY(entry.name, in_.string(fmt::format("the name of tensor {}", index)));
    if (entry.name.empty() || entry.name.size() > kMaxTensorNameBytes) {
      return corrupt("the name of tensor {} has {} bytes; 1 to {} are allowed", index, entry.name.size(),
                     kMaxTensorNameBytes);
    }
    WEIR_TRY(const auto dims, in_.number<std::uint32_t>(entry.name));
    if (dims > kMaxDims)
      return corrupt("tensor \"{}\" has {} dimensions; at most {} are allowed", entry.name, dims, kMaxDims);
    entry.shape.assign(std::max(dims, 1u), 1);  // no dimension: a scalar
    std::int64_t elements = 1;
    for (std::uint32_t d = 0; d < dims; ++d) {
      WEIR_TRY(const auto extent, in_.number<std::int64_t>(entry.name));
      if (extent <= 0)
        return corrupt("dimension {} of tensor \"{}\" is {}; it must be positive", d, entry.name, extent);
      if (__builtin_mul_overflow(elements, extent, &elements)) {
        return corrupt("tensor \"{}\" has more than 2^63 elements (dimension {} is {})", entry.name, d, extent);
      }
      entry.shape[dims - 1 - d] = extent;
    }
    WEIR_TRY(entry.type_id, in_.number<std::int32_t>(entry.name));
    WEIR_TRY(entry.offset, in_.number<std::uint64_t>(entry.name));
    WEIR_RETURN_IF_ERROR(measure(entry, elements));
    return entry;
  }

  Status measure(TensorEntry& entry, std::int64_t elements) const {
    entry.type = gguf_type(entry.type_id);
    if (entry.type == nullptr) return {};  // nobody knows its size; place() finds out what room it has
    const std::int64_t row = entry.shape.back();
    if (row % entry.type->block_elements != 0) {
      return corrupt("tensor \"{}\" has rows of {} elements, but {} comes in blocks of {}", entry.name, row,
                     entry.type->name, entry.type->block_elements);
    }
    std::int64_t bytes = 0;
    if (__builtin_mul_overflow(elements / entry.type->block_elements, entry.type->block_bytes, &bytes)) {
      return corrupt("tensor \"{}\" needs more than 2^63 bytes", entry.name);
    }
    entry.bytes = static_cast<std::uint64_t>(bytes);
    return {};
  }

  // Where each tensor's bytes are: inside the file, aligned, no two over each other.
  Status place(std::vector<TensorEntry>& entries) {
    if (entries.empty()) return {};
    const std::uint64_t data_begin = (in_.offset() + alignment_ - 1) / alignment_ * alignment_;
    if (data_begin > bytes_.size()) {
      return corrupt("the tensor data begin at byte {}, but the file has only {} bytes", data_begin, bytes_.size());
    }
    const std::uint64_t available = bytes_.size() - data_begin;
    std::set<std::string_view> names;
    for (const TensorEntry& entry : entries) {
      if (!names.insert(entry.name).second) return corrupt("two tensors are named \"{}\"", entry.name);
      if (entry.offset % alignment_ != 0) {
        return corrupt("tensor \"{}\" is at offset {}, which is no multiple of the alignment {}", entry.name,
                       entry.offset, alignment_);
      }
      if (entry.offset > available || entry.bytes > available - entry.offset) {
        return corrupt(
            "tensor \"{}\" has {} bytes at offset {} of the tensor data, but those are only {} bytes (is the file cut "
            "short?)",
            entry.name, entry.bytes, entry.offset, available);
      }
    }
    WEIR_RETURN_IF_ERROR(refuse_overlaps(entries));
    std::set<std::uint64_t> ends = {available};
    for (const TensorEntry& entry : entries) ends.insert(entry.offset);
    for (TensorEntry& entry : entries) {
      if (entry.type == nullptr) {
        const auto end = ends.upper_bound(entry.offset);
        entry.bytes = end == ends.end() ? 0 : *end - entry.offset;
      }
      if (entry.type == nullptr || !entry.type->dtype) {
        out_.unsupported.push_back({std::string(entry.name), type_name(entry), std::move(entry.shape),
                                    static_cast<std::int64_t>(entry.bytes)});
        continue;
      }
      out_.tensors.push_back({std::string(entry.name), *entry.type->dtype, std::move(entry.shape),
                              bytes_.subspan(data_begin + entry.offset, entry.bytes)});
    }
    return {};
  }

  Status refuse_overlaps(const std::vector<TensorEntry>& entries) const {
    std::vector<const TensorEntry*> order;
    for (const TensorEntry& entry : entries) order.push_back(&entry);
    std::ranges::sort(order, {}, &TensorEntry::offset);
    for (std::size_t i = 1; i < order.size(); ++i) {
      const TensorEntry &before = *order[i - 1], &after = *order[i];
      if (before.offset + before.bytes > after.offset) {
        return corrupt("tensor \"{}\" ends at offset {} of the tensor data, inside tensor \"{}\", which begins at {}",
                       before.name, before.offset + before.bytes, after.name, after.offset);
      }
    }
    return {};
  }

  std::span<const std::byte> bytes_;
  ByteReader in_;
  std::uint64_t tensor_count_ = 0, pair_count_ = 0;
  std::uint64_t alignment_ = kDefaultAlignment;
  std::vector<TensorEntry> entries_;
  GgufContents out_;
};

}  // namespace

Result<GgufContents> parse_gguf(std::span<const std::byte> bytes, std::string_view file) {
  return Parser(bytes, file).run();
}

PartialContents parse_damaged_gguf(std::span<const std::byte> bytes, std::string_view file) {
  Parser parser(bytes, file);
  auto whole = parser.run();
  if (whole) return {std::move(*whole), std::nullopt};
  return {parser.what_was_read(), std::move(whole).error()};
}

}  // namespace weir::load

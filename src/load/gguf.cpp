#include "load/gguf.h"

#include <algorithm>
#include <bit>
#include <filesystem>
#include <limits>
#include <set>
#include <utility>

#include "load/byte_reader.h"
#include "load/gguf_types.h"
#include "load/mapped_file.h"

namespace weir::load {
namespace {

// The numbers of the format's value types.
enum ValueType : std::int32_t { kU8, kI8, kU16, kI16, kU32, kI32, kF32, kBool, kString, kArray, kU64, kI64, kF64 };

constexpr std::uint32_t kDefaultAlignment = 32;
constexpr std::uint32_t kMaxDims = 4;
constexpr std::size_t kMaxKeyBytes = 65535;       // the specification's limit
constexpr std::size_t kMaxTensorNameBytes = 255;  // names in the wild stay below 64
constexpr int kMaxParts = 1024;                   // keeps the number of mappings far below the kernel's limit
// The smallest encodings, which bound how many entries the rest of a file can hold.
constexpr std::size_t kMinPairBytes = 8 + 1 + 4 + 1;
constexpr std::size_t kMinTensorBytes = 8 + 1 + 4 + 4 + 8;

// One file's table of contents. Views and spans point into its bytes.
struct Contents {
  std::uint32_t version = 0;
  std::map<std::string, GgufValue, std::less<>> metadata;
  std::vector<Weight> tensors;
  std::vector<UnsupportedTensor> unsupported;
};

struct TensorEntry {
  std::string_view name;
  std::vector<std::int64_t> shape;  // outermost first
  std::int32_t type_id = 0;
  const GgufType* type = nullptr;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

class Parser {
 public:
  Parser(std::span<const std::byte> bytes, std::string_view file) : bytes_(bytes), in_(bytes, file) {}

  Result<Contents> run() {
    WEIR_RETURN_IF_ERROR(header());
    for (std::uint64_t i = 0; i < pair_count_; ++i) WEIR_RETURN_IF_ERROR(pair(i));
    WEIR_RETURN_IF_ERROR(read_alignment());
    std::vector<TensorEntry> entries;
    entries.reserve(tensor_count_);
    for (std::uint64_t i = 0; i < tensor_count_; ++i) {
      WEIR_TRY(auto entry, tensor(i));
      entries.push_back(std::move(entry));
    }
    WEIR_RETURN_IF_ERROR(place(entries));
    return std::move(out_);
  }

 private:
  template <class... Args>
  tl::unexpected<Error> corrupt(fmt::format_string<Args...> format, Args&&... args) const {
    return fail(ErrorCode::kCorruptFile, "{}: {}", in_.file(), fmt::format(format, std::forward<Args>(args)...));
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
    if (entry.type == nullptr) {
      return fail(ErrorCode::kUnsupported,
                  "{}: tensor \"{}\" has type {}, which is not a type that weir knows; supported are {}", in_.file(),
                  entry.name, entry.type_id, supported_type_names());
    }
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
    for (TensorEntry& entry : entries) {
      if (!entry.type->dtype) {
        out_.unsupported.push_back({std::string(entry.name), std::string(entry.type->name), std::move(entry.shape),
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
  Contents out_;
};

class GgufFileImpl final : public GgufFile {
 public:
  GgufFileImpl(Contents contents, std::int64_t bytes) : contents_(std::move(contents)), file_bytes_(bytes) {}

  // A further part's tensors join the first's.
  Status append(Contents part, std::unique_ptr<MappedFile> file) {
    file_bytes_ += static_cast<std::int64_t>(file->bytes().size());
    std::ranges::move(part.tensors, std::back_inserter(contents_.tensors));
    std::ranges::move(part.unsupported, std::back_inserter(contents_.unsupported));
    files_.push_back(std::move(file));
    return {};
  }
  void adopt(std::unique_ptr<MappedFile> file) { files_.push_back(std::move(file)); }

  const std::map<std::string, GgufValue, std::less<>>& metadata() const override { return contents_.metadata; }
  const std::vector<Weight>& tensors() const override { return contents_.tensors; }
  const std::vector<UnsupportedTensor>& unsupported_tensors() const override { return contents_.unsupported; }
  int version() const override { return static_cast<int>(contents_.version); }
  int parts() const override { return std::max(1, static_cast<int>(files_.size())); }
  std::int64_t file_bytes() const override { return file_bytes_; }
  void release(const Weight& weight) override {
    for (const auto& file : files_) file->release(weight.data);
  }

 private:
  Contents contents_;
  std::int64_t file_bytes_ = 0;
  std::vector<std::unique_ptr<MappedFile>> files_;
};

template <class T>
const T* look_up(const std::map<std::string, GgufValue, std::less<>>& metadata, std::string_view key) {
  const auto found = metadata.find(key);
  return found == metadata.end() ? nullptr : std::get_if<T>(&found->second);
}

std::int64_t int_or(const Contents& contents, std::string_view key, std::int64_t otherwise) {
  const auto* value = look_up<std::int64_t>(contents.metadata, key);
  return value == nullptr ? otherwise : *value;
}

// NAME-00002-of-00005.gguf
struct PartName {
  std::string stem;
  int number = 0, count = 0;

  std::string path(int n) const { return fmt::format("{}-{:05}-of-{:05}.gguf", stem, n, count); }
};

std::optional<PartName> parse_part_name(const std::string& path) {
  constexpr std::string_view pattern = "-00000-of-00000.gguf";
  if (path.size() <= pattern.size()) return std::nullopt;
  const std::string_view tail = std::string_view(path).substr(path.size() - pattern.size());
  const auto digits = [&](std::size_t at) {
    int n = 0;
    for (std::size_t i = at; i < at + 5; ++i) n = n * 10 + (tail[i] - '0');
    return n;
  };
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const bool fits = pattern[i] == '0' ? tail[i] >= '0' && tail[i] <= '9' : tail[i] == pattern[i];
    if (!fits) return std::nullopt;
  }
  return PartName{path.substr(0, path.size() - pattern.size()), digits(1), digits(10)};
}

Status check_part(const std::string& path, const Contents& part, int number, int count) {
  const std::int64_t stated_count = int_or(part, "split.count", 0), stated_number = int_or(part, "split.no", -1);
  if (stated_count == count && stated_number == number - 1) return {};
  return fail(ErrorCode::kCorruptFile,
              "{}: the name says part {} of {}, the metadata say split.no = {} (counted from 0), split.count = {}; "
              "give the parts their "
              "original names",
              path, number, count, stated_number, stated_count);
}

Result<std::unique_ptr<GgufFile>> open_split(const PartName& name) {
  if (name.count < 1 || name.count > kMaxParts || name.number < 1 || name.number > name.count) {
    return fail(ErrorCode::kUnsupported, "{}: part {} of {}; models of 1 to {} parts can be read",
                name.path(name.number), name.number, name.count, kMaxParts);
  }
  for (int n = 1; n <= name.count; ++n) {
    if (std::error_code ignored; !std::filesystem::exists(name.path(n), ignored)) {
      return fail(ErrorCode::kNotFound, "{}: part {} of {} is missing; all parts must lie in one folder", name.path(n),
                  n, name.count);
    }
  }
  std::unique_ptr<GgufFileImpl> model;
  std::int64_t stated_tensors = -1;
  for (int n = 1; n <= name.count; ++n) {
    WEIR_TRY(auto file, MappedFile::open(name.path(n)));
    WEIR_TRY(auto contents, Parser(file->bytes(), file->path()).run());
    WEIR_RETURN_IF_ERROR(check_part(file->path(), contents, n, name.count));
    if (n == 1) {
      stated_tensors = int_or(contents, "split.tensors.count", -1);
      const auto bytes = static_cast<std::int64_t>(file->bytes().size());
      model = std::make_unique<GgufFileImpl>(std::move(contents), bytes);
      model->adopt(std::move(file));
    } else {
      WEIR_RETURN_IF_ERROR(model->append(std::move(contents), std::move(file)));
    }
  }
  const auto found = static_cast<std::int64_t>(model->tensors().size() + model->unsupported_tensors().size());
  if (stated_tensors >= 0 && stated_tensors != found) {
    return fail(ErrorCode::kCorruptFile, "{}: split.tensors.count says {} tensors, the {} parts hold {}", name.path(1),
                stated_tensors, name.count, found);
  }
  std::set<std::string_view> names;
  for (const Weight& tensor : model->tensors()) {
    if (!names.insert(tensor.name).second) {
      return fail(ErrorCode::kCorruptFile, "{}: tensor \"{}\" is in two parts", name.path(1), tensor.name);
    }
  }
  return model;
}

}  // namespace

Result<std::unique_ptr<GgufFile>> GgufFile::open(const std::string& path) {
  if (const auto part = parse_part_name(path)) return open_split(*part);
  WEIR_TRY(auto file, MappedFile::open(path));
  WEIR_TRY(auto contents, Parser(file->bytes(), path).run());
  if (const auto count = int_or(contents, "split.count", 1); count > 1) {
    return fail(ErrorCode::kCorruptFile,
                "{}: part {} of {} of a split model; its parts are found only under their original names "
                "(NAME-00001-of-{:05}.gguf)",
                path, int_or(contents, "split.no", 0) + 1, count, count);
  }
  auto model = std::make_unique<GgufFileImpl>(std::move(contents), static_cast<std::int64_t>(file->bytes().size()));
  model->adopt(std::move(file));
  return model;
}

Result<std::unique_ptr<GgufFile>> GgufFile::parse(std::span<const std::byte> bytes, const std::string& name) {
  WEIR_TRY(auto contents, Parser(bytes, name).run());
  return std::make_unique<GgufFileImpl>(std::move(contents), static_cast<std::int64_t>(bytes.size()));
}

std::optional<std::int64_t> GgufFile::get_int(std::string_view key) const {
  const auto* value = look_up<std::int64_t>(metadata(), key);
  return value == nullptr ? std::nullopt : std::optional(*value);
}

std::optional<double> GgufFile::get_double(std::string_view key) const {
  if (const auto* value = look_up<double>(metadata(), key)) return *value;
  if (const auto* value = look_up<std::int64_t>(metadata(), key)) return static_cast<double>(*value);
  return std::nullopt;
}

std::optional<bool> GgufFile::get_bool(std::string_view key) const {
  const auto* value = look_up<bool>(metadata(), key);
  return value == nullptr ? std::nullopt : std::optional(*value);
}

const std::string* GgufFile::get_string(std::string_view key) const {
  return look_up<std::string>(metadata(), key);
}

const std::vector<std::string>* GgufFile::get_strings(std::string_view key) const {
  return look_up<std::vector<std::string>>(metadata(), key);
}

const std::vector<std::int64_t>* GgufFile::get_ints(std::string_view key) const {
  return look_up<std::vector<std::int64_t>>(metadata(), key);
}

const std::vector<double>* GgufFile::get_doubles(std::string_view key) const {
  return look_up<std::vector<double>>(metadata(), key);
}

}  // namespace weir::load

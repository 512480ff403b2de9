#include "load/safetensors.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "load/byte_reader.h"
#include "load/json_fields.h"

namespace weir::load {
namespace {

using nlohmann::json;
using tensor::DType;

constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // the reference implementation's limit
constexpr std::size_t kMaxRank = 8;

struct TypeInfo {
  std::string_view name;
  int bits;
  std::optional<DType> dtype;
};

constexpr std::array kTypes = {
    TypeInfo{"F32", 32, DType::kF32},     TypeInfo{"F16", 16, DType::kF16},     TypeInfo{"BF16", 16, DType::kBF16},
    TypeInfo{"F64", 64, std::nullopt},    TypeInfo{"I64", 64, std::nullopt},    TypeInfo{"I32", 32, std::nullopt},
    TypeInfo{"I16", 16, std::nullopt},    TypeInfo{"I8", 8, std::nullopt},      TypeInfo{"U64", 64, std::nullopt},
    TypeInfo{"U32", 32, std::nullopt},    TypeInfo{"U16", 16, std::nullopt},    TypeInfo{"U8", 8, std::nullopt},
    TypeInfo{"BOOL", 8, std::nullopt},    TypeInfo{"F8_E4M3", 8, std::nullopt}, TypeInfo{"F8_E5M2", 8, std::nullopt},
    TypeInfo{"F8_E8M0", 8, std::nullopt}, TypeInfo{"F4", 4, std::nullopt},      TypeInfo{"F6_E2M3", 6, std::nullopt},
    TypeInfo{"F6_E3M2", 6, std::nullopt}, TypeInfo{"C64", 64, std::nullopt},
};

struct Entry {
  std::string name, dtype;
  std::vector<std::int64_t> shape, offsets;
  bool has_shape = false;
};

// Walks the header: {"NAME": {"dtype": "F32", "shape": [..], "data_offsets": [b, e]}, ..., "__metadata__": {"key":
// "text"}}.
class HeaderReader final : public json::json_sax_t {
 public:
  std::vector<Entry> entries;
  std::string error;  // why parsing stopped; empty: it did not

  bool null() override { return stop("a null"); }
  bool boolean(bool) override { return stop("a boolean"); }
  bool number_float(double, const std::string&) override { return stop("a fraction or a number above 2^64"); }
  bool number_integer(std::int64_t value) override { return stop(fmt::format("the negative number {}", value)); }
  bool binary(binary_t&) override { return stop("binary data"); }

  bool number_unsigned(std::uint64_t value) override {
    if (array_ == nullptr) return stop("a number");
    if (!std::in_range<std::int64_t>(value)) return stop(fmt::format("the number {}", value));
    if (array_->size() == kMaxRank) return stop(fmt::format("more than {} numbers", kMaxRank));
    array_->push_back(static_cast<std::int64_t>(value));
    return true;
  }

  bool string(std::string& text) override {
    if (depth_ == 2 && in_metadata_) return true;
    if (depth_ != 2 || array_ != nullptr || field_ != "dtype") return stop("a string");
    entries.back().dtype = text;
    return true;
  }

  bool start_object(std::size_t) override {
    if (array_ != nullptr || depth_ >= 2) return stop("an object");
    if (++depth_ == 1) return true;
    in_metadata_ = name_ == "__metadata__";
    if (in_metadata_) {
      if (metadata_seen_) return stop("a second one");
      metadata_seen_ = true;
      return true;
    }
    if (!names_.insert(name_).second) return stop("a second tensor of that name");
    entries.push_back({});
    entries.back().name = name_;
    return true;
  }

  bool end_object() override {
    if (--depth_ != 1 || in_metadata_) return true;
    const Entry& entry = entries.back();
    if (!entry.dtype.empty() && entry.has_shape && entry.offsets.size() == 2) return true;
    error = fmt::format("tensor \"{}\" needs dtype, shape and two data_offsets (it has {})", name_.substr(0, 200),
                        entry.offsets.size());
    return false;
  }

  bool key(std::string& text) override {
    (depth_ == 1 ? name_ : field_) = text;
    if (depth_ == 2 && !in_metadata_ && text != "dtype" && text != "shape" && text != "data_offsets")
      return stop("a field of that name");
    return true;
  }

  bool start_array(std::size_t) override {
    if (depth_ != 2 || in_metadata_ || array_ != nullptr) return stop("an array");
    Entry& entry = entries.back();
    if (field_ == "shape" && !entry.has_shape) {
      entry.has_shape = true;
      array_ = &entry.shape;
    } else if (field_ == "data_offsets" && entry.offsets.empty()) {
      array_ = &entry.offsets;
    } else {
      return stop("an array");
    }
    return true;
  }

  bool end_array() override {
    array_ = nullptr;
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const json::exception& e) override {
    error = fmt::format("not valid JSON at byte {}: {}", position, e.what());
    return false;
  }

 private:
  bool stop(std::string_view found) {
    error = fmt::format("unexpected: {}, in \"{}\" {}", found, name_.substr(0, 200), field_.substr(0, 200));
    return false;
  }

  int depth_ = 0;
  bool in_metadata_ = false, metadata_seen_ = false;
  std::string name_, field_;
  std::vector<std::int64_t>* array_ = nullptr;  // being filled
  std::unordered_set<std::string> names_;
};

// The bytes that the entry's dtype and shape ask for.
Result<std::int64_t> span_of(const Entry& entry, const TypeInfo& type, const std::string& file) {
  std::int64_t bits = type.bits;
  for (const std::int64_t extent : entry.shape) {
    if (__builtin_mul_overflow(bits, extent, &bits)) {
      return fail(ErrorCode::kCorruptFile, "{}: tensor \"{}\" has more than 2^63 bits", file, entry.name);
    }
  }
  if (bits % 8 != 0) return fail(ErrorCode::kCorruptFile, "{}: tensor \"{}\" ends inside a byte", file, entry.name);
  return bits / 8;
}

Status check_entry(const Entry& entry, const std::string& file, std::int64_t data_bytes) {
  const std::int64_t begin = entry.offsets[0], end = entry.offsets[1];
  if (begin > end || end > data_bytes) {
    return fail(ErrorCode::kCorruptFile,
                "{}: tensor \"{}\" lies at bytes {} to {} of data of {} bytes (is the file cut short?)", file,
                entry.name, begin, end, data_bytes);
  }
  return {};
}

Status refuse_gaps(const std::vector<Entry>& entries, const std::string& file, std::int64_t data_bytes) {
  std::vector<const Entry*> order;
  for (const Entry& entry : entries) order.push_back(&entry);
  std::ranges::sort(order, {}, [](const Entry* e) { return std::pair(e->offsets[0], e->offsets[1]); });
  std::int64_t covered = 0;
  for (const Entry* entry : order) {
    if (entry->offsets[0] != covered) {
      return fail(ErrorCode::kCorruptFile,
                  "{}: tensor \"{}\" begins at byte {} of the data, {} byte {} where the one before it ends", file,
                  entry->name, entry->offsets[0], entry->offsets[0] < covered ? "before" : "after", covered);
    }
    covered = entry->offsets[1];
  }
  if (covered != data_bytes) {
    return fail(ErrorCode::kCorruptFile, "{}: the tensors end at byte {} of data of {} bytes", file, covered,
                data_bytes);
  }
  return {};
}

Result<std::vector<Entry>> read_header(std::string_view text, const std::string& file) {
  HeaderReader reader;
  try {
    if (json::sax_parse(text, &reader) && reader.error.empty()) return std::move(reader.entries);
  } catch (const json::exception& e) {
    reader.error = e.what();
  }
  return fail(ErrorCode::kCorruptFile, "{}: the header is damaged: {}", file, reader.error);
}

}  // namespace

namespace {

struct Table {
  std::vector<Entry> entries;
  std::span<const std::byte> data;
};

Result<Table> read_table(std::span<const std::byte> bytes, const std::string& file) {
  ByteReader in(bytes, file);
  WEIR_TRY(const auto header_bytes, in.number<std::uint64_t>("the header's length"));
  if (header_bytes > kMaxHeaderBytes || header_bytes > in.remaining()) {
    return fail(ErrorCode::kCorruptFile,
                "{}: the header says it has {} bytes; at most {} are allowed and {} are left in the file", file,
                header_bytes, kMaxHeaderBytes, in.remaining());
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + in.offset(), header_bytes);
  if (text.empty() || text[0] != '{')
    return fail(ErrorCode::kCorruptFile, "{}: the header does not begin with '{{'", file);
  Table table;
  WEIR_TRY(table.entries, read_header(text, file));
  table.data = bytes.subspan(in.offset() + header_bytes);
  return table;
}

}  // namespace

Result<SafetensorsContents> parse_safetensors(std::span<const std::byte> bytes, const std::string& file) {
  WEIR_TRY(const auto table, read_table(bytes, file));
  const auto& [entries, data] = table;
  const auto data_bytes = static_cast<std::int64_t>(data.size());

  SafetensorsContents contents;
  for (const Entry& entry : entries) {
    WEIR_RETURN_IF_ERROR(check_entry(entry, file, data_bytes));
    const auto type = std::ranges::find(kTypes, entry.dtype, &TypeInfo::name);
    if (type == kTypes.end()) {
      return fail(ErrorCode::kUnsupported,
                  "{}: tensor \"{}\" has the unknown dtype \"{}\"; F32, F16 and BF16 are supported", file, entry.name,
                  entry.dtype.substr(0, 40));
    }
    WEIR_TRY(const std::int64_t span, span_of(entry, *type, file));
    if (span != entry.offsets[1] - entry.offsets[0]) {
      return fail(ErrorCode::kCorruptFile, "{}: tensor \"{}\" of {} [{}] needs {} bytes, its data_offsets span {}",
                  file, entry.name, entry.dtype, fmt::join(entry.shape, ", "), span,
                  entry.offsets[1] - entry.offsets[0]);
    }
    const auto bytes_of = data.subspan(static_cast<std::size_t>(entry.offsets[0]), static_cast<std::size_t>(span));
    auto shape = entry.shape.empty() ? std::vector<std::int64_t>{1} : entry.shape;
    if (!type->dtype) {
      contents.unsupported.push_back({entry.name, entry.dtype, std::move(shape), span, bytes_of});
      continue;
    }
    contents.tensors.push_back({entry.name, *type->dtype, std::move(shape), bytes_of});
  }
  WEIR_RETURN_IF_ERROR(refuse_gaps(entries, file, data_bytes));
  return contents;
}

Status Safetensors::add(const std::string& path) {
  WEIR_TRY(auto file, MappedFile::open(path));
  WEIR_TRY(auto part, parse_safetensors(file->bytes(), path));
  std::ranges::move(part.tensors, std::back_inserter(contents_.tensors));
  std::ranges::move(part.unsupported, std::back_inserter(contents_.unsupported));
  files_.push_back(std::move(file));
  return {};
}

namespace {

Error missing_shard(const std::string& path, const std::string& index, std::size_t tensors) {
  return {ErrorCode::kNotFound,
          fmt::format("{}: this shard is missing; {} names {} tensors in it", path, index, tensors),
          {}};
}

// The index's weight_map: shard file -> names of its tensors.
Result<std::map<std::string, std::vector<std::string>>> read_index(const std::string& path) {
  WEIR_TRY(const auto text, read_text_file(path, kMaxIndexBytes));
  WEIR_TRY(const json index, parse_json(text, path));
  const JsonFields fields(index, path);
  const json* map = fields.member("weight_map");
  if (map == nullptr || !map->is_object() || map->empty()) {
    return fail_at("weight_map", ErrorCode::kCorruptFile, "{}: \"weight_map\" is no object of tensor names", path);
  }
  std::map<std::string, std::vector<std::string>> shards;
  for (const auto& [name, value] : map->items()) {
    if (!value.is_string()) return fail(ErrorCode::kCorruptFile, "{}: weight_map[\"{}\"] is no file name", path, name);
    const auto& shard = value.get_ref<const std::string&>();
    // A plain name keeps a hostile index inside its own folder.
    if (shard.find('/') != std::string::npos || shard.find('\0') != std::string::npos ||
        !shard.ends_with(".safetensors")) {
      return fail(ErrorCode::kCorruptFile,
                  "{}: weight_map[\"{}\"] is \"{}\"; the plain name of a .safetensors file in the same folder expected",
                  path, name, shard);
    }
    shards[shard].push_back(name);
  }
  if (shards.size() > kMaxShards) {
    return fail(ErrorCode::kTooLarge, "{}: {} shards; at most {} are allowed", path, shards.size(), kMaxShards);
  }
  return shards;
}

}  // namespace

void Safetensors::add_damaged(const std::string& path, std::vector<std::string>& faults) {
  auto file = MappedFile::open(path);
  if (!file) return faults.push_back(file.error().message);
  const auto table = read_table((*file)->bytes(), path);
  if (!table) {
    faults.push_back(table.error().message);
  } else {
    if (const auto whole = parse_safetensors((*file)->bytes(), path); !whole) faults.push_back(whole.error().message);
    for (const Entry& entry : table->entries)
      contents_.unsupported.push_back({entry.name, entry.dtype.substr(0, 40), entry.shape,
                                       std::max<std::int64_t>(0, entry.offsets[1] - entry.offsets[0])});
  }
  files_.push_back(std::move(*file));
}

std::unique_ptr<Safetensors> Safetensors::open_damaged(const std::string& folder, std::vector<std::string>& faults) {
  auto model = std::make_unique<Safetensors>();
  std::error_code ignored;
  const std::string single = folder + "/model.safetensors", index = single + ".index.json";
  if (std::filesystem::exists(single, ignored)) {
    model->add_damaged(single, faults);
  } else if (std::filesystem::exists(index, ignored)) {
    const auto shards = read_index(index);
    if (!shards) {
      faults.push_back(shards.error().message);
      return model;
    }
    for (const auto& [shard, names] : *shards) {
      const std::string path = folder + "/" + shard;
      if (std::filesystem::exists(path, ignored))
        model->add_damaged(path, faults);
      else
        faults.push_back(missing_shard(path, index, names.size()).message);
    }
  }
  return model;
}

Result<std::unique_ptr<Safetensors>> Safetensors::open_sharded(const std::string& folder,
                                                               const std::string& index_path) {
  WEIR_TRY(const auto shards, read_index(index_path));
  auto model = std::make_unique<Safetensors>();
  std::unordered_map<std::string, std::string> seen;  // tensor -> shard
  for (const auto& [shard, names] : shards) {
    const std::string path = folder + "/" + shard;
    if (std::error_code ignored; !std::filesystem::exists(path, ignored)) {
      return tl::unexpected(missing_shard(path, index_path, names.size()));
    }
    const std::size_t first = model->contents_.tensors.size(), first_unsupported = model->contents_.unsupported.size();
    WEIR_RETURN_IF_ERROR(model->add(path));
    std::vector<std::string_view> added;
    for (std::size_t i = first; i < model->contents_.tensors.size(); ++i)
      added.push_back(model->contents_.tensors[i].name);
    for (std::size_t i = first_unsupported; i < model->contents_.unsupported.size(); ++i) {
      added.push_back(model->contents_.unsupported[i].name);
    }
    for (const std::string_view name : added) {
      if (const auto [other, fresh] = seen.emplace(name, shard); !fresh) {
        return fail(ErrorCode::kCorruptFile, "{}: tensor \"{}\" is in {} and in {}", index_path, name, other->second,
                    shard);
      }
    }
    for (const std::string& name : names) {
      const auto found = seen.find(name);
      if (found == seen.end() || found->second != shard) {
        return fail(ErrorCode::kCorruptFile, "{}: tensor \"{}\" should be in {}, which does not hold it", index_path,
                    name, shard);
      }
    }
  }
  return model;
}

Result<std::unique_ptr<Safetensors>> Safetensors::open(const std::string& folder) {
  std::error_code ignored;
  const std::string single = folder + "/model.safetensors", index = single + ".index.json";
  if (std::filesystem::exists(single, ignored)) {
    auto model = std::make_unique<Safetensors>();
    WEIR_RETURN_IF_ERROR(model->add(single));
    return model;
  }
  if (std::filesystem::exists(index, ignored)) return open_sharded(folder, index);
  if (std::filesystem::exists(folder + "/pytorch_model.bin", ignored) ||
      std::filesystem::exists(folder + "/pytorch_model.bin.index.json", ignored)) {
    return fail(ErrorCode::kUnsupported,
                "{}: holds only pytorch_model.bin; weir does not read pickle files, which can run code. Convert the "
                "weights to safetensors",
                folder);
  }
  return fail(ErrorCode::kNotFound, "{}: neither model.safetensors nor model.safetensors.index.json is there", folder);
}

std::int64_t Safetensors::file_bytes() const {
  std::int64_t bytes = 0;
  for (const auto& file : files_) bytes += static_cast<std::int64_t>(file->bytes().size());
  return bytes;
}

void Safetensors::release(std::span<const std::byte> bytes) const {
  for (const auto& file : files_) file->release(bytes);
}

}  // namespace weir::load

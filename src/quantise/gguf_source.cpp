#include <algorithm>

#include "load/byte_reader.h"
#include "load/families/family.h"
#include "load/gguf.h"
#include "load/mapped_file.h"
#include "load/model_files.h"
#include "quantise/source_model.h"

namespace weir::quantise {
namespace {

using std::uint32_t;
using std::uint64_t;

constexpr uint32_t kString = 8, kArray = 9;

// Bytes of a metadata value of each type of fixed size.
std::size_t value_bytes(uint32_t type) {
  constexpr std::size_t kBytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return type < std::size(kBytes) ? kBytes[type] : 0;
}

Status skip(load::ByteReader& in, std::size_t bytes) {
  WEIR_RETURN_IF_ERROR(in.expect("a metadata value", bytes, 1));
  for (; bytes >= 8; bytes -= 8) WEIR_RETURN_IF_ERROR(in.number<uint64_t>("a metadata value").map([](auto) {}));
  for (; bytes > 0; --bytes) WEIR_RETURN_IF_ERROR(in.number<std::uint8_t>("a metadata value").map([](auto) {}));
  return {};
}

Status skip_values(load::ByteReader& in, uint32_t type, uint64_t count) {
  if (type != kString) {
    WEIR_RETURN_IF_ERROR(in.expect("a metadata array", count, std::max<std::size_t>(value_bytes(type), 1)));
    return skip(in, value_bytes(type) * count);
  }
  for (uint64_t i = 0; i < count; ++i) WEIR_RETURN_IF_ERROR(in.string("a metadata string").map([](auto) {}));
  return {};
}

// Copies the metadata of a file, which has been parsed and found right, as it is.
Status copy_metadata(std::span<const std::byte> bytes, const std::string& file, GgufMetadata& to) {
  load::ByteReader in(bytes, file);
  WEIR_RETURN_IF_ERROR(skip(in, 16));  // magic, version, number of tensors
  WEIR_TRY(const auto pairs, in.number<uint64_t>("the number of metadata pairs"));
  for (uint64_t i = 0; i < pairs; ++i) {
    WEIR_TRY(const auto key, in.string("a metadata key"));
    const std::size_t begin = in.offset();
    WEIR_TRY(const auto type, in.number<uint32_t>(key));
    if (type == kArray) {
      WEIR_TRY(const auto element, in.number<uint32_t>(key));
      WEIR_TRY(const auto count, in.number<uint64_t>(key));
      WEIR_RETURN_IF_ERROR(skip_values(in, element, count));
    } else {
      WEIR_RETURN_IF_ERROR(skip_values(in, type, 1));
    }
    const bool replaced = key == "general.file_type" || key == "general.quantization_version" ||
                          key == "general.alignment" || key.starts_with("split.");
    if (!replaced) to.add_raw(key, bytes.subspan(begin, in.offset() - begin));
  }
  return {};
}

}  // namespace

Result<SourceModel> source_from_gguf(const std::string& path) {
  WEIR_TRY(std::shared_ptr<load::GgufFile> file, load::GgufFile::open(path));
  if (!file->unsupported_tensors().empty()) {
    const load::UnsupportedTensor& first = file->unsupported_tensors()[0];
    return fail_at(first.name, ErrorCode::kUnsupported, "{}: tensor \"{}\" has type {}, which is not supported", path,
                   first.name, first.type);
  }
  // A model of an architecture that weir knows must be whole; of the others it is all the same to the types.
  const std::string* architecture = file->get_string("general.architecture");
  if (architecture != nullptr && load::family_reading(*architecture) != nullptr) {
    const auto checked = load::model_from_gguf(file, path);
    if (!checked && checked.error().code == ErrorCode::kCorruptFile) return tl::unexpected(checked.error());
  }
  SourceModel model;
  {
    WEIR_TRY(const auto first_part, load::MappedFile::open(path));
    WEIR_RETURN_IF_ERROR(copy_metadata(first_part->bytes(), path, model.metadata));
  }
  if (architecture != nullptr) {
    model.layers = static_cast<int>(file->get_int(*architecture + ".block_count").value_or(0));
    const auto heads = file->get_int(*architecture + ".attention.head_count").value_or(1);
    const auto kv_heads = file->get_int(*architecture + ".attention.head_count_kv").value_or(heads);
    if (kv_heads > 0) model.queries_per_kv_head = static_cast<int>(heads / kv_heads);
  }
  for (const load::Weight& weight : file->tensors())
    model.tensors.push_back({weight.name, weight.dtype, weight.shape, weight.data});
  model.release = [file](std::span<const std::byte> bytes) { file->release(bytes); };
  model.owner = file;
  return model;
}

}  // namespace weir::quantise

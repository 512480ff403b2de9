#include "load/gguf.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "load/gguf_parser.h"
#include "load/mapped_file.h"

namespace weir::load {
namespace {

constexpr int kMaxParts = 1024;  // keeps the number of mappings far below the kernel's limit

class GgufFileImpl final : public GgufFile {
 public:
  GgufFileImpl(GgufContents contents, std::int64_t bytes) : contents_(std::move(contents)), file_bytes_(bytes) {}

  // A further part's tensors join the first's.
  Status append(GgufContents part, std::unique_ptr<MappedFile> file) {
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
  void release(std::span<const std::byte> bytes) override {
    for (const auto& file : files_) file->release(bytes);
  }
  void forget_vocabulary() override {
    std::erase_if(contents_.metadata, [](const auto& entry) { return entry.first.starts_with("tokenizer."); });
  }

 private:
  GgufContents contents_;
  std::int64_t file_bytes_ = 0;
  std::vector<std::unique_ptr<MappedFile>> files_;
};

template <class T>
const T* look_up(const std::map<std::string, GgufValue, std::less<>>& metadata, std::string_view key) {
  const auto found = metadata.find(key);
  return found == metadata.end() ? nullptr : std::get_if<T>(&found->second);
}

std::int64_t int_or(const GgufContents& contents, std::string_view key, std::int64_t otherwise) {
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

Status check_part(const std::string& path, const GgufContents& part, int number, int count) {
  const std::int64_t stated_count = int_or(part, "split.count", 0), stated_number = int_or(part, "split.no", -1);
  if (stated_count == count && stated_number == number - 1) return {};
  return fail(ErrorCode::kCorruptFile,
              "{}: the name says part {} of {}, the metadata say split.no = {} (counted from 0), split.count = {}; "
              "give the parts their "
              "original names",
              path, number, count, stated_number, stated_count);
}

Status refuse_repeats(const GgufFile& model, const std::string& file) {
  std::set<std::string_view> names;
  for (const Weight& tensor : model.tensors()) names.insert(tensor.name);
  for (const UnsupportedTensor& tensor : model.unsupported_tensors()) names.insert(tensor.name);
  const std::size_t tensors = model.tensors().size() + model.unsupported_tensors().size();
  if (names.size() == tensors) return {};
  return fail(ErrorCode::kCorruptFile, "{}: {} tensors have only {} names: some are in two parts", file, tensors,
              names.size());
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
    WEIR_TRY(auto contents, parse_gguf(file->bytes(), file->path()));
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
  WEIR_RETURN_IF_ERROR(refuse_repeats(*model, name.path(1)));
  return model;
}

}  // namespace

Result<std::unique_ptr<GgufFile>> GgufFile::open(const std::string& path) {
  if (const auto part = parse_part_name(path)) return open_split(*part);
  WEIR_TRY(auto file, MappedFile::open(path));
  WEIR_TRY(auto contents, parse_gguf(file->bytes(), path));
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

GgufRemains read_damaged_gguf(const std::string& path) {
  const auto name = parse_part_name(path);
  const bool split = name && name->count <= kMaxParts;
  GgufRemains remains;
  for (int n = 1; n <= (split ? name->count : 1); ++n) {
    const auto file = MappedFile::open(split ? name->path(n) : path);
    if (!file) {
      remains.faults.push_back(file.error().message);
      continue;
    }
    auto [contents, fault] = parse_damaged_gguf((*file)->bytes(), (*file)->path());
    if (fault) remains.faults.push_back(fault->message);
    remains.parts += 1;
    remains.file_bytes += static_cast<std::int64_t>((*file)->bytes().size());
    remains.version = std::max(remains.version, static_cast<int>(contents.version & 0xffff));
    remains.metadata.merge(contents.metadata);
    for (Weight& tensor : contents.tensors)
      remains.tensors.push_back({std::move(tensor.name), std::string(tensor::info(tensor.dtype).name),
                                 std::move(tensor.shape), static_cast<std::int64_t>(tensor.data.size())});
    std::ranges::move(contents.unsupported, std::back_inserter(remains.tensors));
  }
  return remains;
}

Result<std::unique_ptr<GgufFile>> GgufFile::parse(std::span<const std::byte> bytes, const std::string& name) {
  WEIR_TRY(auto contents, parse_gguf(bytes, name));
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

#include "hub/listing.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "hub/digest.h"
#include "hub/model_ref.h"

namespace weir::hub {
namespace {

using nlohmann::json;

constexpr int kMaxDepth = 64;
constexpr std::size_t kMaxFiles = 100'000;
constexpr std::size_t kMaxShards = 1024;  // of one model; as src/load allows

struct TooDeep {};

Result<json> parse(std::string_view text, const std::string& source) {
  const auto begin = text.find_first_not_of(" \t\r\n");
  if (begin != text.npos && text[begin] == '<')
    return fail(ErrorCode::kCorruptFile,
                "{}: a web page came in place of JSON; is something (a proxy, a log-in page of the network) between "
                "this machine and the Hub?",
                source);
  try {
    return json::parse(text, [](int depth, json::parse_event_t, json&) {
      if (depth > kMaxDepth) throw TooDeep();
      return true;
    });
  } catch (const TooDeep&) {
    return fail(ErrorCode::kCorruptFile, "{}: JSON nested more than {} deep", source, kMaxDepth);
  } catch (const json::exception& e) {
    return fail(ErrorCode::kCorruptFile, "{}: not JSON: {}", source, e.what());
  }
}

const std::string* string_member(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? &found->get_ref<const std::string&>() : nullptr;
}

// Absent is fine, nonsense is not.
Result<std::optional<std::int64_t>> size_member(const json& object, const std::string& path,
                                                const std::string& source) {
  const auto found = object.find("size");
  if (found == object.end() || found->is_null()) return std::nullopt;
  if (!found->is_number_unsigned() || found->get<std::uint64_t>() > static_cast<std::uint64_t>(kMaxFileBytes))
    return fail(ErrorCode::kCorruptFile, "{}: the size of '{}' is no number of bytes up to {}", source, path,
                kMaxFileBytes);
  return found->get<std::int64_t>();
}

Result<RemoteFile> parse_file(const json& sibling, const std::string& source) {
  const std::string* name = sibling.is_object() ? string_member(sibling, "rfilename") : nullptr;
  if (name == nullptr) return fail(ErrorCode::kCorruptFile, "{}: an entry of \"siblings\" has no rfilename", source);
  if (const auto fine = check_repo_path(*name); !fine)
    return fail(ErrorCode::kCorruptFile, "{}: {}; nothing was pulled", source, fine.error().message);
  RemoteFile file{.path = *name};
  WEIR_TRY(file.bytes, size_member(sibling, *name, source));
  const auto lfs = sibling.find("lfs");
  const std::string* id = nullptr;
  if (lfs != sibling.end() && lfs->is_object()) {
    // Without it the blob's own id would be that of the pointer in Git, not of the contents.
    id = string_member(*lfs, "sha256");
    WEIR_TRY(const auto bytes, size_member(*lfs, *name, source));
    if (bytes) file.bytes = bytes;
  } else {
    id = string_member(sibling, "blobId");
  }
  if (id != nullptr && is_content_id(*id)) file.content_id = *id;
  return file;
}

}  // namespace

Result<Listing> parse_listing(std::string_view text, const std::string& source) {
  WEIR_TRY(const json answer, parse(text, source));
  if (!answer.is_object()) return fail(ErrorCode::kCorruptFile, "{}: not a JSON object", source);
  Listing listing;
  const std::string* commit = string_member(answer, "sha");
  if (commit == nullptr || !is_commit(*commit))
    return fail(ErrorCode::kCorruptFile, "{}: \"sha\" is no commit of 40 hexadecimal digits", source);
  listing.commit = *commit;
  const auto siblings = answer.find("siblings");
  if (siblings == answer.end() || !siblings->is_array())
    return fail(ErrorCode::kCorruptFile, "{}: there is no list \"siblings\" of files", source);
  if (siblings->size() > kMaxFiles)
    return fail(ErrorCode::kTooLarge, "{}: {} files; at most {} are allowed", source, siblings->size(), kMaxFiles);
  for (const json& sibling : *siblings) {
    WEIR_TRY(auto file, parse_file(sibling, source));
    listing.files.push_back(std::move(file));
  }
  std::ranges::stable_sort(listing.files, {}, &RemoteFile::path);
  const auto twice = std::ranges::adjacent_find(listing.files, {}, &RemoteFile::path);
  if (twice != listing.files.end())
    return fail(ErrorCode::kCorruptFile, "{}: '{}' is listed twice", source, twice->path);
  return listing;
}

Result<std::vector<std::string>> parse_shard_names(std::string_view text, const std::string& source) {
  WEIR_TRY(const json index, parse(text, source));
  const auto map = index.is_object() ? index.find("weight_map") : index.end();
  if (map == index.end() || !map->is_object() || map->empty())
    return fail(ErrorCode::kCorruptFile, "{}: \"weight_map\" is no object of tensor names", source);
  std::set<std::string> shards;
  for (const auto& [tensor, value] : map->items()) {
    if (!value.is_string() || !value.get_ref<const std::string&>().ends_with(".safetensors"))
      return fail(ErrorCode::kCorruptFile, "{}: weight_map[\"{}\"] names no .safetensors file", source, tensor);
    shards.insert(value.get<std::string>());
    if (shards.size() > kMaxShards) return fail(ErrorCode::kTooLarge, "{}: more than {} shards", source, kMaxShards);
  }
  for (const std::string& shard : shards) {
    if (const auto fine = check_repo_path(shard); !fine)
      return fail(ErrorCode::kCorruptFile, "{}: {}", source, fine.error().message);
  }
  return std::vector<std::string>(shards.begin(), shards.end());
}

}  // namespace weir::hub

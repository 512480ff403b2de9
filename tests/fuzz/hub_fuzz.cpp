// Arbitrary bytes as what a Hub says of a repository, as a shard index and as the name of a model: refused, or names
// that stay below the folder they are put in.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "hub/choose.h"
#include "hub/digest.h"
#include "hub/listing.h"
#include "hub/model_ref.h"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

void require_inside(const std::string& path) {
  require(!path.empty() && path.front() != '/' && path.find("//") == path.npos);
  const std::string parts = "/" + path + "/";
  require(parts.find("/../") == parts.npos && parts.find("/./") == parts.npos && path.find('\0') == path.npos);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (const auto ref = weir::hub::parse_model_ref(text)) {
    require(weir::hub::looks_like_model_ref(text) || ref->name.ends_with(".gguf"));
    require_inside(ref->repo());
    require_inside(ref->revision);
    if (!ref->file.empty()) require_inside(ref->file);
  }
  if (const auto shards = weir::hub::parse_shard_names(text, "index")) {
    for (const std::string& shard : *shards) require_inside(shard);
  }
  const auto listing = weir::hub::parse_listing(text, "list");
  if (!listing) return 0;
  require(weir::hub::is_commit(listing->commit));
  std::vector<std::string> paths;
  for (const auto& file : listing->files) {
    require_inside(file.path);
    require(file.content_id.empty() || weir::hub::is_content_id(file.content_id));
    require(!file.bytes || (*file.bytes >= 0 && *file.bytes <= weir::hub::kMaxFileBytes));
    paths.push_back(file.path);
  }
  for (const char* wanted : {"", "Q4_K_M", "q8_0", "model.safetensors"}) {
    if (const auto choice = weir::hub::choose_files(paths, wanted, "a/b")) {
      for (const std::string& file : choice->files) require(std::ranges::binary_search(paths, file));
    }
  }
  return 0;
}

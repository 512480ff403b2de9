// What a repository of the Hub holds: the answer to GET /api/models/OWNER/NAME/revision/REVISION?blobs=true, whose
// "siblings" are the files. Nothing in it is trusted: names become paths here and commits become folders.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace weir::hub {

constexpr std::size_t kMaxListingBytes = std::size_t{64} << 20;
constexpr std::int64_t kMaxFileBytes = std::int64_t{1} << 50;

struct RemoteFile {
  std::string path;
  std::optional<std::int64_t> bytes;
  std::string content_id;  // see hub/digest.h; empty where the listing does not tell
};

struct Listing {
  std::string commit;
  std::vector<RemoteFile> files;  // by path; no two have the same
};

// `source`: where the text is from, for messages.
Result<Listing> parse_listing(std::string_view text, const std::string& source);

// The shard files that a model.safetensors.index.json names, each once.
Result<std::vector<std::string>> parse_shard_names(std::string_view text, const std::string& source);

}  // namespace weir::hub

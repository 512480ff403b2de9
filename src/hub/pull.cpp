#include "hub/pull.h"

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "hub/choose.h"
#include "hub/digest.h"
#include "hub/listing.h"

namespace weir::hub {
namespace {

constexpr double kAnswerLimit_s = 120;  // of what is small

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool is_true(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text == "1" || text == "ON" || text == "YES" || text == "TRUE";
}

Result<std::string> read_limited(const std::string& path, std::size_t limit) {
  std::ifstream in(path, std::ios::binary);
  std::string text;
  char buffer[1 << 16];
  while (in.read(buffer, sizeof(buffer)), in.gcount() > 0) {
    text.append(buffer, static_cast<std::size_t>(in.gcount()));
    if (text.size() > limit) return fail(ErrorCode::kTooLarge, "{}: larger than {} bytes", path, limit);
  }
  if (text.empty()) return fail(ErrorCode::kNotFound, "{}: cannot be read, or is empty", path);
  return text;
}

std::string stored_token() {
  std::string path = path_from_environment("HF_TOKEN_PATH");
  if (path.empty()) path = hub_home() + "/token";
  const auto text = read_limited(path, 4096);
  if (!text) return {};
  const auto begin = text->find_first_not_of(" \t\r\n");
  return begin == text->npos ? "" : text->substr(begin, text->find_last_not_of(" \t\r\n") + 1 - begin);
}

std::int64_t size_of(const std::string& path) {
  struct stat info = {};
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) ? info.st_size : -1;
}

std::string bytes_text(std::int64_t bytes) {
  return bytes < 10'000'000 ? fmt::format("{:.1f} kB", static_cast<double>(bytes) / 1e3)
                            : fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6);
}

// An ETag without its dressing, in lower case: on the Hub, the content's id.
std::string id_of_etag(std::string_view etag) {
  if (etag.starts_with("W/")) etag.remove_prefix(2);
  if (etag.size() >= 2 && etag.front() == '"' && etag.back() == '"') etag = etag.substr(1, etag.size() - 2);
  return is_content_id(etag) ? std::string(etag) : std::string();
}

// One pull of one repository.
class Puller {
 public:
  Puller(const ModelRef& ref, const PullOptions& options, HttpClient& client, PullListener& listener)
      : ref_(ref), options_(options), client_(client), listener_(listener), cache_(options.cache_root) {}

  Result<std::string> run() {
    WEIR_RETURN_IF_ERROR(list());
    std::vector<std::string> paths;
    for (const RemoteFile& file : listing_.files) paths.push_back(file.path);
    WEIR_TRY(auto choice, choose_files(paths, ref_.file, ref_.repo()));
    if (!choice.note.empty()) listener_.note(choice.note);
    WEIR_RETURN_IF_ERROR(cache_.prepare(ref_));
    if (!choice.index.empty()) WEIR_RETURN_IF_ERROR(add_shards(choice));
    WEIR_RETURN_IF_ERROR(bring(choice.files));
    WEIR_RETURN_IF_ERROR(cache_.remember_commit(ref_, listing_.commit));
    const std::string folder = cache_.snapshot(ref_, listing_.commit);
    return choice.main.empty() ? folder : folder + "/" + choice.main;
  }

 private:
  std::string file_url(const std::string& path) const {
    return fmt::format("{}/{}/resolve/{}/{}", options_.endpoint, ref_.repo(), listing_.commit, url_escaped(path, true));
  }

  // What the repository holds at the revision.
  Status list() {
    const std::string what = ref_.repo() + "@" + ref_.revision;
    std::string body;
    HttpRequest get{.url = fmt::format("{}/api/models/{}/revision/{}?blobs=true", options_.endpoint, ref_.repo(),
                                       url_escaped(ref_.revision)),
                    .limit_s = kAnswerLimit_s};
    get.begin = [&](const HttpHead&) -> Status {
      body.clear();
      return {};
    };
    get.body = [&](std::span<const std::byte> data) -> Status {
      if (data.size() > kMaxListingBytes - body.size())
        return fail(ErrorCode::kTooLarge, "{}: a list of more than {} bytes", what, kMaxListingBytes);
      body.append(reinterpret_cast<const char*>(data.data()), data.size());
      return {};
    };
    WEIR_RETURN_IF_ERROR(with_retries(what, options_.retries, listener_, [&]() -> HttpResult<void> {
      const auto head = client_.perform(get);
      if (!head) return tl::unexpected(head.error());
      if (!head->ok()) return tl::unexpected(refusal(*head, what));
      return {};
    }));
    WEIR_TRY(listing_, parse_listing(body, what));
    if (is_commit(ref_.revision) && listing_.commit != ref_.revision)
      return fail(ErrorCode::kCorruptFile, "{}: the Hub answers for another commit, {}", what, listing_.commit);
    return {};
  }

  const RemoteFile* listed(const std::string& path) const {
    const auto found = std::ranges::lower_bound(listing_.files, path, {}, &RemoteFile::path);
    return found != listing_.files.end() && found->path == path ? &*found : nullptr;
  }

  // The shards are known once the index is there.
  Status add_shards(Choice& choice) {
    WEIR_RETURN_IF_ERROR(bring({choice.index}));
    const std::string path = cache_.snapshot(ref_, listing_.commit) + "/" + choice.index;
    WEIR_TRY(const auto text, read_limited(path, kMaxListingBytes));
    WEIR_TRY(const auto shards, parse_shard_names(text, choice.index));
    for (const std::string& shard : shards) {
      if (listed(shard) == nullptr)
        return fail(ErrorCode::kCorruptFile, "{}: {} names the shard '{}', which the repository does not hold",
                    ref_.repo(), choice.index, shard);
      choice.files.push_back(shard);
    }
    return {};
  }

  Status bring(const std::vector<std::string>& paths) {
    std::vector<BlobRequest> requests;
    std::int64_t missing = 0;
    for (const std::string& path : paths) {
      WEIR_TRY(auto request, describe(*listed(path)));
      const bool there = size_of(cache_.blob(ref_, request.id)) == request.bytes;
      const auto begun = std::max<std::int64_t>(0, size_of(cache_.incomplete(ref_, request.id)));
      if (!there) missing += std::max<std::int64_t>(0, request.bytes - begun);
      requests.push_back(std::move(request));
    }
    WEIR_RETURN_IF_ERROR(check_space(missing));
    for (const BlobRequest& request : requests) {
      if (size_of(cache_.blob(ref_, request.id)) != request.bytes)
        WEIR_RETURN_IF_ERROR(download_blob(client_, cache_, ref_, request, listener_));
      WEIR_RETURN_IF_ERROR(cache_.link(ref_, listing_.commit, request.path, request.id));
    }
    return {};
  }

  Status check_space(std::int64_t missing) const {
    struct statvfs info = {};
    if (missing == 0 || ::statvfs(options_.cache_root.c_str(), &info) != 0) return {};
    const auto free = static_cast<std::int64_t>(info.f_bavail) * static_cast<std::int64_t>(info.f_frsize);
    if (missing <= free) return {};
    return fail(ErrorCode::kInvalidArgument,
                "{}: {} are still to come, and the disk of {} has room for {}; make room, or set HF_HUB_CACHE (or "
                "--cache-dir) to a folder on another disk",
                ref_.repo(), bytes_text(missing), options_.cache_root, bytes_text(free));
  }

  // What is to be fetched for a file: from the listing, and from the Hub's answer to HEAD.
  Result<BlobRequest> describe(const RemoteFile& file) {
    BlobRequest request{.url = file_url(file.path), .path = file.path, .id = file.content_id};
    request.retries = options_.retries;
    request.bytes = file.bytes.value_or(-1);
    if (!request.id.empty() && request.bytes >= 0 && size_of(cache_.blob(ref_, request.id)) == request.bytes)
      return request;
    HttpHead head;
    const HttpRequest ask{.url = request.url, .head_only = true, .stay = true, .limit_s = kAnswerLimit_s};
    WEIR_RETURN_IF_ERROR(with_retries(file.path, options_.retries, listener_, [&]() -> HttpResult<void> {
      auto answer = client_.perform(ask);
      if (!answer) return tl::unexpected(answer.error());
      head = std::move(*answer);
      if (!head.ok() && !head.redirect()) return tl::unexpected(refusal(head, file.path));
      return {};
    }));
    WEIR_RETURN_IF_ERROR(compare(head, request));
    return request;
  }

  Status compare(const HttpHead& head, BlobRequest& request) const {
    const auto commit = head.header("x-repo-commit");
    if (!commit.empty() && commit != listing_.commit)
      return fail(ErrorCode::kCorruptFile, "{}: asked for at commit {}, the Hub answers for another one", request.path,
                  listing_.commit);
    const auto linked = head.header("x-linked-etag");
    const std::string id = id_of_etag(linked.empty() ? head.header("etag") : linked);
    if (!id.empty() && !request.id.empty() && id != request.id)
      return fail(ErrorCode::kCorruptFile, "{}: the Hub lists it with checksum {} and gives it with {}", request.path,
                  request.id, id);
    if (request.id.empty()) request.id = id;
    if (request.id.empty())
      return fail(ErrorCode::kUnsupported,
                  "{}: the Hub names no checksum for it (an ETag of 40 or 64 hexadecimal digits), so what comes could "
                  "not be verified",
                  request.path);
    auto bytes = head.number("x-linked-size");
    if (!bytes && head.ok()) bytes = head.number("content-length");
    if (bytes && request.bytes >= 0 && *bytes != request.bytes)
      return fail(ErrorCode::kCorruptFile, "{}: the Hub lists it with {} bytes and gives it with {}", request.path,
                  request.bytes, *bytes);
    if (bytes) request.bytes = *bytes;
    if (request.bytes < 0 || request.bytes > kMaxFileBytes)
      return fail(ErrorCode::kCorruptFile, "{}: the Hub does not say how many bytes it has", request.path);
    if (head.ok() && head.header("etag").starts_with('"')) request.etag = head.header("etag");
    return {};
  }

  const ModelRef& ref_;
  const PullOptions& options_;
  HttpClient& client_;
  PullListener& listener_;
  Cache cache_;
  Listing listing_;
};

}  // namespace

Result<PullOptions> pull_options_from_environment() {
  PullOptions options;
  if (std::string endpoint = environment("HF_ENDPOINT"); !endpoint.empty()) options.endpoint = std::move(endpoint);
  while (options.endpoint.ends_with('/')) options.endpoint.pop_back();
  options.token = environment("HF_TOKEN");
  if (options.token.empty()) options.token = stored_token();
  WEIR_TRY(options.cache_root, Cache::default_root());
  options.offline = is_true(environment("HF_HUB_OFFLINE"));
  if (const double stall_s = std::atof(environment("HF_HUB_DOWNLOAD_TIMEOUT").c_str()); stall_s > 0)
    options.stall_s = std::min(stall_s, 86400.0);
  return options;
}

Result<std::string> pull(const ModelRef& ref, const PullOptions& options, PullListener& listener) {
  if (options.offline) {
    if (auto path = find_pulled(ref, options.cache_root)) return *path;
    return fail(ErrorCode::kNotFound, "{}: not in {}, and HF_HUB_OFFLINE forbids to fetch it", ref.repo(),
                options.cache_root);
  }
  WEIR_TRY(const auto client, HttpClient::create({.user_agent = options.user_agent,
                                                  .token = options.token,
                                                  .token_origin = options.endpoint,
                                                  .stall_s = options.stall_s}));
  return Puller(ref, options, *client, listener).run();
}

std::optional<std::string> find_pulled(const ModelRef& ref, const std::string& cache_root) {
  const Cache cache(cache_root);
  const auto commit = cache.commit_of(ref);
  if (!commit) return std::nullopt;
  const auto files = cache.files(ref, *commit);
  const auto choice = choose_files(files, ref.file, ref.repo());
  if (!choice) return std::nullopt;
  const std::string folder = cache.snapshot(ref, *commit);
  if (!choice->index.empty()) {
    const auto text = read_limited(folder + "/" + choice->index, kMaxListingBytes);
    const auto shards = text ? parse_shard_names(*text, choice->index) : tl::unexpected(text.error());
    if (!shards || !std::ranges::all_of(
                       *shards, [&](const std::string& shard) { return std::ranges::binary_search(files, shard); })) {
      return std::nullopt;
    }
  }
  return choice->main.empty() ? folder : folder + "/" + choice->main;
}

}  // namespace weir::hub

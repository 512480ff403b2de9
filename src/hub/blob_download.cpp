#include "hub/blob_download.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "base/printable.h"
#include "base/rng.h"
#include "hub/digest.h"

namespace weir::hub {
namespace {

constexpr double kFirstPause_s = 0.25, kLongestPause_s = 30;
constexpr double kMostPatience_s = 120;  // a server that wants more is given up
// What an attempt must bring so that the count of failures begins anew: keeps the number of attempts within the file's
// size, and a long download over a bad line possible.
constexpr std::int64_t kProgressBytes = std::int64_t{8} << 20;
constexpr std::size_t kQuoted = 300;  // of a server's own words

std::string quoted(std::string_view text) {
  return printable(text.substr(0, kQuoted));
}

// The file that grows, and the checksum of what is in it.
class Incomplete {
 public:
  static Result<std::unique_ptr<Incomplete>> open(const std::string& path, const BlobRequest& request) {
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd < 0) return fail(ErrorCode::kInvalidArgument, "{}: cannot be written: {}", path, std::strerror(errno));
    std::unique_ptr<Incomplete> file(new Incomplete(fd, path, request));
    WEIR_RETURN_IF_ERROR(file->take_over());
    return file;
  }
  ~Incomplete() { ::close(fd_); }

  std::int64_t have() const { return have_; }
  bool resumed() const { return resumed_; }

  Status restart() {
    digest_ = Digest(request_.id, request_.bytes);
    have_ = 0;
    resumed_ = false;
    if (::ftruncate(fd_, 0) != 0) return failed("cannot be emptied");
    return {};
  }

  Status append(std::span<const std::byte> data) {
    if (static_cast<std::int64_t>(data.size()) > request_.bytes - have_)
      return fail(ErrorCode::kCorruptFile, "{}: the server sends more than the {} bytes that the file has",
                  request_.path, request_.bytes);
    digest_.add(data);
    while (!data.empty()) {
      const auto n = ::pwrite(fd_, data.data(), data.size(), have_);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return failed("cannot be written");
      have_ += n;
      data = data.subspan(static_cast<std::size_t>(n));
    }
    return {};
  }

  std::string id() { return digest_.id(); }

  // Complete and right: to its place.
  Status keep_as(const std::string& place) {
    if (::fdatasync(fd_) != 0) return failed("cannot be written");
    if (::rename(path_.c_str(), place.c_str()) != 0) return failed("cannot be moved into place");
    return {};
  }

 private:
  Incomplete(int fd, std::string path, const BlobRequest& request)
      : fd_(fd), path_(std::move(path)), request_(request), digest_(request.id, request.bytes) {}

  Status failed(const char* what) const {
    return fail(ErrorCode::kInvalidArgument, "{}: {}: {}", path_, what, std::strerror(errno));
  }

  // What is there goes through the checksum.
  Status take_over() {
    struct stat info = {};
    if (::fstat(fd_, &info) != 0) return failed("cannot be read");
    if (!S_ISREG(info.st_mode)) return fail(ErrorCode::kInvalidArgument, "{}: not a regular file", path_);
    if (info.st_size > request_.bytes) return restart();
    std::vector<std::byte> buffer(std::size_t{1} << 20);
    while (have_ < info.st_size) {
      const auto n = ::pread(fd_, buffer.data(), buffer.size(), have_);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return failed("cannot be read");
      if (n == 0) break;
      digest_.add(std::span(buffer).first(static_cast<std::size_t>(n)));
      have_ += n;
    }
    resumed_ = have_ > 0;
    return {};
  }

  int fd_;
  std::string path_;
  const BlobRequest& request_;
  Digest digest_;
  std::int64_t have_ = 0;
  bool resumed_ = false;  // holds bytes of an earlier process
};

// "bytes 100-199/200"
bool continues(std::string_view content_range, std::int64_t from, std::int64_t bytes) {
  return content_range == fmt::format("bytes {}-{}/{}", from, bytes - 1, bytes);
}

bool is_page(const HttpHead& head, const std::string& path) {
  return head.header("content-type").starts_with("text/html") && !path.ends_with(".html") && !path.ends_with(".htm");
}

// The head of an answer to a request for the contents from file.have() on.
Status check_head(const HttpHead& head, const BlobRequest& request, Incomplete& file) {
  if (is_page(head, request.path))
    return fail(
        ErrorCode::kCorruptFile,
        "{}: a web page came in place of the file; is something (a proxy, a log-in page of the network) between "
        "this machine and the Hub?",
        request.path);
  if (const auto encoding = head.header("content-encoding"); !encoding.empty() && encoding != "identity")
    return fail(ErrorCode::kUnsupported, "{}: the server sends it encoded as '{}', unasked", request.path,
                quoted(encoding));
  if (head.status == 206) {
    if (!continues(head.header("content-range"), file.have(), request.bytes))
      return fail(ErrorCode::kCorruptFile, "{}: asked for bytes {} to {} of {}, the server sends '{}'", request.path,
                  file.have(), request.bytes - 1, request.bytes, quoted(head.header("content-range")));
  } else if (file.have() > 0) {
    WEIR_RETURN_IF_ERROR(file.restart());  // it sends all of it
  }
  const auto length = head.number("content-length");
  if (length && *length != request.bytes - file.have())
    return fail(ErrorCode::kCorruptFile, "{}: has {} bytes, and the server sends {} where {} are to come", request.path,
                request.bytes, *length, request.bytes - file.have());
  return {};
}

// One attempt at the rest of the file.
class Attempt {
 public:
  Attempt(HttpClient& client, const BlobRequest& request, Incomplete& file, PullListener& listener)
      : client_(client),
        request_(request),
        file_(file),
        listener_(listener),
        validator_(request.etag),
        best_(file.have()) {}

  HttpResult<void> operator()() {
    best_before_ = best_;
    auto done = rest();
    best_ = std::max(best_, file_.have());
    return done;
  }

  // Against the furthest that ever came: where the server ignores ranges every attempt begins at nothing.
  bool progressed() const { return best_ - best_before_ >= kProgressBytes; }

 private:
  HttpResult<void> rest() {
    if (file_.have() == request_.bytes) return {};
    HttpRequest get{.url = request_.url};
    if (file_.have() > 0) {
      get.headers.push_back(fmt::format("Range: bytes={}-", file_.have()));
      if (!validator_.empty()) get.headers.push_back("If-Range: " + validator_);
    }
    get.begin = [&](const HttpHead& head) { return begin(head); };
    get.body = [&](std::span<const std::byte> data) -> Status {
      WEIR_RETURN_IF_ERROR(file_.append(data));
      listener_.file_advances(file_.have());
      return {};
    };
    const auto head = client_.perform(get);
    if (!head) return tl::unexpected(head.error());
    if (head->status == 416 && file_.have() > 0) {
      if (auto status = file_.restart(); !status) return tl::unexpected(HttpFailure{status.error()});
      return tl::unexpected(HttpFailure{refusal(*head, request_.path).error, true});
    }
    if (!head->ok()) return tl::unexpected(refusal(*head, request_.path));
    if (file_.have() < request_.bytes)
      return tl::unexpected(HttpFailure{
          fail(ErrorCode::kCorruptFile, "{}: only {} of {} bytes came", request_.path, file_.have(), request_.bytes)
              .value(),
          true});
    return {};
  }

  Status begin(const HttpHead& head) {
    WEIR_RETURN_IF_ERROR(check_head(head, request_, file_));
    const auto etag = head.header("etag");
    validator_ = etag.starts_with('"') ? std::string(etag) : "";  // a weak one validates no range (RFC 9110, 13.1.5)
    return {};
  }

  HttpClient& client_;
  const BlobRequest& request_;
  Incomplete& file_;
  PullListener& listener_;
  std::string validator_;
  std::int64_t best_ = 0, best_before_ = 0;
};

bool is_complete(const std::string& path, std::int64_t bytes) {
  struct stat info = {};
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && info.st_size == bytes;
}

}  // namespace

Status with_retries(const std::string& what, int retries, PullListener& listener,
                    const std::function<HttpResult<void>()>& attempt, const std::function<bool()>& progressed) {
  static std::uint64_t pauses = 0;
  double pause_s = kFirstPause_s;
  for (int failures = 0;; ++failures) {
    auto done = attempt();
    if (done) return {};
    HttpFailure& failure = done.error();
    if (!failure.error.message.starts_with(what)) failure.error.message.insert(0, what + ": ");
    if (progressed && progressed()) failures = 0, pause_s = kFirstPause_s;
    if (!failure.again || failures >= retries || failure.wait_s > kMostPatience_s) {
      if (failure.again && failures > 0) failure.error.message += fmt::format(" (after {} attempts)", failures + 1);
      return tl::unexpected(std::move(failure.error));
    }
    // Up to a quarter longer, so that many who failed together do not come back together.
    const double jitter = 1 + uniform(static_cast<std::uint64_t>(::getpid()), pauses++) / 4;
    const double wait_s = std::max(failure.wait_s, pause_s * jitter);
    listener.note(fmt::format("{}; trying again in {:.1f} s", failure.error.message, wait_s));
    std::this_thread::sleep_for(std::chrono::duration<double>(wait_s));
    pause_s = std::min(2 * pause_s, kLongestPause_s);
  }
}

HttpFailure refusal(const HttpHead& head, const std::string& what) {
  const auto code = head.header("x-error-code");
  const auto message = head.header("x-error-message");
  const std::string said = message.empty() ? "" : fmt::format(" (\"{}\")", quoted(message));
  const auto refused = [&](ErrorCode kind, const std::string& why) {
    return HttpFailure{
        fail(kind, "{}: {} answers {}{}: {}", what, origin_of(head.url), head.status, said, why).value()};
  };
  if (code == "GatedRepo" || (head.status == 403 && code.empty()))
    return refused(ErrorCode::kUnauthorized,
                   "access needs the token of somebody who was let in: accept the model's terms on its page, then give "
                   "--token or HF_TOKEN");
  if (head.status == 401 || code == "RepoNotFound")
    return refused(ErrorCode::kNotFound,
                   "there is no such model, or it is private and needs a (valid) token: --token or HF_TOKEN");
  if (code == "RevisionNotFound") return refused(ErrorCode::kNotFound, "there is no such revision");
  if (head.status == 404 || code == "EntryNotFound")
    return refused(ErrorCode::kNotFound, "there is no such model, revision or file");
  if (head.status == 429 || head.status == 408 || head.status >= 500) {
    HttpFailure failure = refused(ErrorCode::kOverloaded, "it is overloaded or broken at the moment");
    failure.again = true;
    failure.wait_s = static_cast<double>(std::min<std::int64_t>(head.number("retry-after").value_or(0), 1 << 20));
    return failure;
  }
  return refused(ErrorCode::kNotFound, "not what was asked for");
}

Status download_blob(HttpClient& client, const Cache& cache, const ModelRef& ref, const BlobRequest& request,
                     PullListener& listener) {
  const std::string place = cache.blob(ref, request.id);
  WEIR_TRY(const auto lock, FileLock::take(cache.lock(ref, request.id), [&] {
             listener.note(fmt::format("{}: another process downloads it; waiting", request.path));
           }));
  if (is_complete(place, request.bytes)) return {};  // in the meantime
  WEIR_TRY(const auto file, Incomplete::open(cache.incomplete(ref, request.id), request));
  listener.file_begins(request.path, request.bytes, file->have());
  for (bool again = true;;) {
    const bool resumed = file->resumed();
    Attempt attempt(client, request, *file, listener);
    WEIR_RETURN_IF_ERROR(with_retries(
        request.path, request.retries, listener, [&] { return attempt(); }, [&] { return attempt.progressed(); }));
    const std::string found = file->id();
    if (found == request.id) break;
    WEIR_RETURN_IF_ERROR(file->restart());
    // What an earlier process left may be at fault.
    if (!resumed || !std::exchange(again, false)) {
      ::unlink(cache.incomplete(ref, request.id).c_str());
      return fail(ErrorCode::kCorruptFile, "{}: has checksum {}, but {} was to come; it was thrown away", request.path,
                  found, request.id);
    }
    listener.note(fmt::format("{}: what an earlier attempt left was damaged; beginning anew", request.path));
  }
  listener.file_ends();
  return file->keep_as(place);
}

}  // namespace weir::hub

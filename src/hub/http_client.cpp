#include "hub/http_client.h"

#include <curl/curl.h>

#include <algorithm>
#include <charconv>

#include "base/check.h"
#include "base/printable.h"

namespace weir::hub {
namespace {

constexpr std::size_t kMaxHeaderBytes = 256 << 10;  // of one answer; signed URLs of CDNs have some kilobytes
constexpr std::size_t kMaxRefusedBytes = 1 << 20;   // of the body of an answer that is not 2xx
constexpr std::size_t kMaxUrl = 16 << 10;
constexpr long kConnectTimeout_s = 15;

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + ('a' - 'A'));
  }
  return out;
}

std::string_view trimmed(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t\r\n");
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r\n") + 1 - begin);
}

using Url = std::unique_ptr<CURLU, void (*)(CURLU*)>;

Url parsed_url(const std::string& text) {
  Url url(curl_url(), curl_url_cleanup);
  if (!url || curl_url_set(url.get(), CURLUPART_URL, text.c_str(), 0) != CURLUE_OK) return {nullptr, curl_url_cleanup};
  return url;
}

std::string part(const Url& url, CURLUPart which, unsigned flags = 0) {
  char* text = nullptr;
  if (curl_url_get(url.get(), which, &text, flags) != CURLUE_OK) return {};
  std::string out(text);
  curl_free(text);
  return out;
}

std::string origin(const Url& url) {
  const std::string scheme = part(url, CURLUPART_SCHEME);
  if (scheme != "http" && scheme != "https") return {};
  return scheme + "://" + lower(part(url, CURLUPART_HOST)) + ":" + part(url, CURLUPART_PORT, CURLU_DEFAULT_PORT);
}

// For messages: what is behind the '?' may be a signature that opens the file to anybody.
std::string_view shown(std::string_view url) {
  return url.substr(0, url.find('?'));
}

// A failure of the network, or of the other side in speaking HTTP, that may be over the next time.
bool may_pass(CURLcode code) {
  switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
    case CURLE_PARTIAL_FILE:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
      return true;
    default:
      return false;
  }
}

}  // namespace

std::string_view HttpHead::header(std::string_view name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? std::string_view() : std::string_view(found->second);
}

std::optional<std::int64_t> HttpHead::number(std::string_view name) const {
  const auto text = header(name);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

bool HttpHead::redirect() const {
  return (status == 301 || status == 302 || status == 303 || status == 307 || status == 308) &&
         !header("location").empty();
}

// What the callbacks of one transfer share.
struct HttpClient::Transfer {
  const HttpRequest& request;
  HttpHead head;
  std::size_t header_bytes = 0, refused_bytes = 0;
  bool begun = false;
  Status status;

  static std::size_t on_header(char* data, std::size_t, std::size_t size, void* self) {
    return static_cast<Transfer*>(self)->header({data, size}) ? size : 0;
  }
  static std::size_t on_body(char* data, std::size_t, std::size_t size, void* self) {
    return static_cast<Transfer*>(self)->body(std::as_bytes(std::span(data, size))) ? size : 0;
  }

  bool header(std::string_view line) {
    header_bytes += line.size();
    if (header_bytes > kMaxHeaderBytes) {
      status = fail(ErrorCode::kTooLarge, "{}: more than {} bytes of headers", shown(head.url), kMaxHeaderBytes);
      return false;
    }
    if (line.starts_with("HTTP/")) {
      const auto space = line.find(' ');
      const auto code = space == line.npos ? std::string_view() : line.substr(space + 1, 3);
      head.status = 0;
      std::from_chars(code.data(), code.data() + code.size(), head.status);
      head.headers.clear();  // those before were of an interim answer
      return true;
    }
    const auto colon = line.find(':');
    // Of a repeated one the first counts.
    if (colon != line.npos) head.headers.emplace(lower(line.substr(0, colon)), trimmed(line.substr(colon + 1)));
    return true;
  }

  bool body(std::span<const std::byte> data) {
    if (!head.ok()) {
      refused_bytes += data.size();
      return refused_bytes <= kMaxRefusedBytes;
    }
    if (status && !begun && request.begin) status = request.begin(head);
    begun = true;
    if (status && request.body) status = request.body(data);
    return status.has_value();
  }
};

HttpClient::HttpClient(HttpOptions options) : options_(std::move(options)) {}

HttpClient::~HttpClient() {
  curl_easy_cleanup(handle_);
}

Result<std::unique_ptr<HttpClient>> HttpClient::create(HttpOptions options) {
  static const CURLcode started = curl_global_init(CURL_GLOBAL_DEFAULT);
  if (origin_of(options.token_origin).empty())
    return fail(ErrorCode::kInvalidArgument, "'{}' is no http or https address of a Hub", options.token_origin);
  // It becomes a header line.
  if (!std::ranges::all_of(options.token, [](unsigned char c) { return c > ' ' && c < 0x7f; }))
    return fail(ErrorCode::kInvalidArgument, "the access token holds spaces, control or non-ASCII characters");
  std::unique_ptr<HttpClient> client(new HttpClient(std::move(options)));
  client->handle_ = started == CURLE_OK ? curl_easy_init() : nullptr;
  if (client->handle_ == nullptr) return fail(ErrorCode::kInternal, "libcurl could not be started");
  return client;
}

HttpResult<HttpHead> HttpClient::perform(const HttpRequest& request) {
  std::string url = request.url;
  const auto stop = [](tl::unexpected<Error> error) { return tl::unexpected(HttpFailure{std::move(error).value()}); };
  for (int hop = 0; hop <= kMaxRedirects; ++hop) {
    auto head = once(request, url);
    if (!head || !head->redirect()) return head;
    auto target = redirect_target(url, std::string(head->header("location")));
    if (!target) return stop(tl::unexpected(target.error()));
    if (request.stay && origin_of(*target) != origin_of(url)) return head;
    url = std::move(*target);
  }
  return stop(fail(ErrorCode::kUnsupported, "{}: redirected more than {} times", shown(request.url), kMaxRedirects));
}

HttpResult<HttpHead> HttpClient::once(const HttpRequest& request, const std::string& url) {
  Transfer transfer{.request = request};
  transfer.head.url = url;
  auto* curl = static_cast<CURL*>(handle_);
  curl_easy_reset(curl);  // keeps connections
  char message[CURL_ERROR_SIZE] = {};
  curl_slist* lines = curl_slist_append(nullptr, "Accept-Encoding: identity");  // sizes and ranges are of the file
  for (const std::string& line : request.headers) lines = curl_slist_append(lines, line.c_str());
  if (!options_.token.empty() && origin_of(url) == origin_of(options_.token_origin))
    lines = curl_slist_append(lines, ("Authorization: Bearer " + options_.token).c_str());
  const std::unique_ptr<curl_slist, void (*)(curl_slist*)> owned(lines, curl_slist_free_all);

  const auto set = [&](CURLoption option, auto value) { CHECK(curl_easy_setopt(curl, option, value) == CURLE_OK); };
  set(CURLOPT_URL, url.c_str());
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_NOBODY, request.head_only ? 1L : 0L);
  set(CURLOPT_HTTPHEADER, lines);
  set(CURLOPT_USERAGENT, options_.user_agent.c_str());
  set(CURLOPT_ERRORBUFFER, message);
  set(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  set(CURLOPT_CONNECTTIMEOUT, kConnectTimeout_s);
  set(CURLOPT_LOW_SPEED_LIMIT, 1L);
  set(CURLOPT_LOW_SPEED_TIME, std::max(1L, static_cast<long>(options_.stall_s)));
  set(CURLOPT_TIMEOUT_MS, static_cast<long>(request.limit_s * 1000));
  set(CURLOPT_BUFFERSIZE, 512L << 10);
  set(CURLOPT_HEADERFUNCTION, &Transfer::on_header);
  set(CURLOPT_HEADERDATA, &transfer);
  set(CURLOPT_WRITEFUNCTION, &Transfer::on_body);
  set(CURLOPT_WRITEDATA, &transfer);
  const CURLcode code = curl_easy_perform(curl);
  const bool empty = code == CURLE_OK && transfer.head.ok() && !request.head_only && !transfer.begun;
  if (empty && request.begin) transfer.status = request.begin(transfer.head);
  if (!transfer.status) return tl::unexpected(HttpFailure{transfer.status.error()});
  // The rest of a refusal's body is of no interest.
  if (code == CURLE_OK || (code == CURLE_WRITE_ERROR && transfer.head.status >= 300)) return std::move(transfer.head);
  auto error = fail(ErrorCode::kNotFound, "{}: {}", shown(url), message[0] != 0 ? message : curl_easy_strerror(code));
  return tl::unexpected(HttpFailure{std::move(error).value(), may_pass(code)});
}

std::string origin_of(const std::string& url) {
  const Url parsed = parsed_url(url);
  return parsed ? origin(parsed) : std::string();
}

Result<std::string> redirect_target(const std::string& url, const std::string& location) {
  const Url parsed = parsed_url(url);
  CHECK(parsed != nullptr);
  const std::string from = origin(parsed);
  // Relative ones are resolved against what the handle holds.
  if (location.size() > kMaxUrl || curl_url_set(parsed.get(), CURLUPART_URL, location.c_str(), 0) != CURLUE_OK)
    return fail(ErrorCode::kUnsupported, "{}: redirects to something that is no address", shown(url));
  const std::string to = origin(parsed);
  if (to.empty() || !part(parsed, CURLUPART_USER).empty())
    return fail(ErrorCode::kUnsupported, "{}: redirects to {}, which is no plain http or https address", shown(url),
                shown(location).substr(0, 200));
  if (from.starts_with("https:") && !to.starts_with("https:"))
    return fail(ErrorCode::kUnsupported, "{}: redirects from https to {}, where anybody could change what comes",
                shown(url), to);
  return part(parsed, CURLUPART_URL);
}

std::string url_escaped(std::string_view text, bool keep_slashes) {
  constexpr std::string_view kPlain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
  std::string out;
  for (const char c : text) {
    if (kPlain.find(c) != kPlain.npos || (keep_slashes && c == '/')) {
      out += c;
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

}  // namespace weir::hub

// HttpClient: GET and HEAD over libcurl, for a client that trusts neither the network nor the server.
//
// Redirects are followed here and not by libcurl, because what may follow one is our rule: the token goes to the origin
// (scheme, host and port) it was given for and to no other, https never becomes http, and after kMaxRedirects it ends.
// Header and body sizes have limits, and a transfer that brings nothing for `stall_s` ends.
//
// One thread; connections are kept for the next request.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace weir::hub {

constexpr int kMaxRedirects = 10;

struct HttpOptions {
  std::string user_agent;
  std::string token;         // sent as a bearer token ...
  std::string token_origin;  // ... to the origin of this URL only
  double stall_s = 30;
};

// One answer's head. Names are lower-case.
struct HttpHead {
  std::string url;  // that gave it
  int status = 0;
  std::map<std::string, std::string, std::less<>> headers;

  // Empty if there is none.
  std::string_view header(std::string_view name) const;
  // A header that is a whole number.
  std::optional<std::int64_t> number(std::string_view name) const;
  bool ok() const { return status >= 200 && status < 300; }
  bool redirect() const;
};

// Why a request brought nothing, and whether the same request may bring it later.
struct HttpFailure {
  Error error;
  bool again = false;
  double wait_s = 0;  // the server asked for this much patience
};

template <class T>
using HttpResult = tl::expected<T, HttpFailure>;

struct HttpRequest {
  std::string url;
  bool head_only = false;
  bool stay = false;                 // give the answer that redirects to another origin, rather than follow it
  std::vector<std::string> headers;  // "Name: value"
  double limit_s = 0;                // for all of it; 0: as long as something comes
  // The body of a 2xx answer: `begin` once before the first piece, with the final head. A failure ends the transfer.
  std::function<Status(const HttpHead&)> begin;
  std::function<Status(std::span<const std::byte>)> body;
};

class HttpClient {
 public:
  static Result<std::unique_ptr<HttpClient>> create(HttpOptions options);
  ~HttpClient();

  // The final answer, whatever its status. Fails where the transport did, or `begin` or `body`.
  HttpResult<HttpHead> perform(const HttpRequest& request);

 private:
  struct Transfer;
  explicit HttpClient(HttpOptions options);
  HttpResult<HttpHead> once(const HttpRequest& request, const std::string& url);

  HttpOptions options_;
  void* handle_ = nullptr;  // CURL
};

// "https://host:443" of a URL, or nothing if it is no http or https URL.
std::string origin_of(const std::string& url);

// Where a redirect of `url` to `location` leads, if it may.
Result<std::string> redirect_target(const std::string& url, const std::string& location);

// `text` as one part of a URL's path; with `keep_slashes`, as several.
std::string url_escaped(std::string_view text, bool keep_slashes = false);

}  // namespace weir::hub

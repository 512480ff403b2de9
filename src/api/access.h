// Who may ask: the API key, and what keeps web pages of other origins away from a server on this machine.
#pragma once

#include <string>
#include <string_view>

#include "api/http.h"
#include "base/result.h"

namespace weir::api {

class AccessPolicy {
 public:
  // `api_key` empty: no key is asked for. `loopback`: the server is reachable from this machine only; then the Host
  // header must name it
  // (`host` is the name it was started with), so that a page whose name was re-pointed to 127.0.0.1 (DNS rebinding)
  // gets nothing.
  AccessPolicy(std::string api_key, bool loopback, std::string host);

  // kUnauthorized, or kInvalidArgument / kNotFound for a request of another site. Every route goes through here.
  //
  // The key comes as "Authorization: Bearer KEY" or, so that a browser can ask the user for it, as the password of
  // Basic authentication. Requests that a browser sends for a page of another origin are refused: it would add the
  // password by itself.
  Status check(const HttpRequest& request) const;

 private:
  bool key_ok(std::string_view authorization) const;
  bool host_ok(std::string_view host) const;

  std::string api_key_;
  bool loopback_;
  std::string host_;
};

// Takes the same time wherever the texts first differ.
bool equal_constant_time(std::string_view a, std::string_view b);

}  // namespace weir::api

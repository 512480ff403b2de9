// The planner's page: what it answers to a request, without HTTP around it, so that any server can mount it.
//
// It takes numbers in ranges and names of known models, devices and types: nothing a client sends becomes a path, and
// nothing of it comes back as markup.
//
// cost:    a plan takes up to some seconds of one core: not on a thread that others wait for
// threads: calls from anywhere
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace weir::plan {

struct PageAnswer {
  int status = 200;
  std::string_view content_type;
  std::string body;
};

constexpr std::size_t kMostPageBody = 16 * 1024;

// What the page may load and whom it may talk to: files of its own, and its own server.
constexpr std::string_view kPagePolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; frame-ancestors "
    "'none'; "
    "base-uri 'none'; form-action 'none'";

// `path`: below where the page is mounted, "/" for itself. 404 and 405 for what is not there, 400 and 413 for bodies
// that are refused, with a message for people.
PageAnswer answer_page(std::string_view method, std::string_view path, std::string_view body);

}  // namespace weir::plan

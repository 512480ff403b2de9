// What needs no server; tests/e2e/pull_test.py has the rest.
#include "hub/http_client.h"

#include <gtest/gtest.h>

namespace weir::hub {
namespace {

TEST(HttpClient, AnOriginIsSchemeHostAndPort) {
  EXPECT_EQ("https://huggingface.co:443", origin_of("https://HuggingFace.co/a/b?c"));
  EXPECT_EQ(origin_of("https://x/"), origin_of("https://x:443/y"));
  EXPECT_NE(origin_of("https://x/"), origin_of("https://x:8443/"));
  EXPECT_NE(origin_of("https://x/"), origin_of("http://x:443/"));
  EXPECT_NE(origin_of("https://x/"), origin_of("https://x.evil/"));
  EXPECT_NE(origin_of("https://x/"), origin_of("https://x@evil/"));
  for (const char* url : {"", "x", "ftp://x/", "file:///etc/passwd", "http://", "javascript:x"}) {
    EXPECT_EQ("", origin_of(url)) << url;
  }
}

TEST(HttpClient, RedirectsAreResolvedAndNeverLeaveHttps) {
  EXPECT_EQ("https://cdn/x?y=1", redirect_target("https://hub/a/b", "https://cdn/x?y=1").value());
  EXPECT_EQ("https://hub/c", redirect_target("https://hub/a/b", "/c").value());
  EXPECT_EQ("https://hub/a/c", redirect_target("https://hub/a/b", "c").value());
  EXPECT_EQ("https://cdn/c", redirect_target("https://hub/a/b", "//cdn/c").value());
  EXPECT_EQ("https://hub/", redirect_target("http://hub/a", "https://hub/").value());
  for (const char* location : {"http://hub/a", "http://cdn/x", "ftp://cdn/x", "file:///etc/passwd",
                               "https://user:password@cdn/", "http://["}) {
    EXPECT_FALSE(redirect_target("https://hub/a", location)) << location;
  }
}

TEST(HttpClient, EscapesAllThatMeansSomethingInAUrl) {
  EXPECT_EQ("refs%2Fpr%2F1", url_escaped("refs/pr/1"));
  EXPECT_EQ("a/b%20c%3F%23%25.gguf", url_escaped("a/b c?#%.gguf", true));
  EXPECT_EQ("%C3%A4", url_escaped("\xc3\xa4"));
}

TEST(HttpClient, ATokenIsNoPlaceForHeaders) {
  for (const char* token : {"a b", "a\r\nX: y", "a\n", "\x80"}) {
    EXPECT_FALSE(HttpClient::create({.token = token, .token_origin = "https://hub"})) << token;
  }
  EXPECT_TRUE(HttpClient::create({.token = "hf_abc", .token_origin = "https://hub"}));
  EXPECT_FALSE(HttpClient::create({.token_origin = "ftp://hub"}));
}

}  // namespace
}  // namespace weir::hub

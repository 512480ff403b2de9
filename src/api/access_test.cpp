#include "api/access.h"

#include <gtest/gtest.h>

namespace weir::api {
namespace {

HttpRequest request(std::string host, std::string authorization = {}, std::string origin = {}) {
  HttpRequest out;
  out.host = std::move(host);
  out.authorization = std::move(authorization);
  out.origin = std::move(origin);
  return out;
}

TEST(AccessPolicy, a_server_on_loopback_answers_only_to_its_own_names) {
  const AccessPolicy policy("", true, "127.0.0.1");
  for (const char* host : {"127.0.0.1", "127.0.0.1:8000", "localhost:8000", "LOCALHOST", "[::1]:8000", "127.1.2.3",
                           "weir.localhost", ""}) {
    EXPECT_TRUE(policy.check(request(host))) << host;
  }
  for (const char* host : {"evil.example", "evil.example:8000", "127.0.0.1.evil.example", "localhost.evil.example",
                           "127.evil", "[::2]:80"}) {
    EXPECT_FALSE(policy.check(request(host))) << host;
  }
  EXPECT_TRUE(AccessPolicy("", false, "0.0.0.0").check(request("any.example")));
}

TEST(AccessPolicy, pages_of_other_origins_are_refused) {
  const AccessPolicy policy("", true, "127.0.0.1");
  EXPECT_TRUE(policy.check(request("127.0.0.1:8000", "", "http://127.0.0.1:8000")));
  for (const char* origin : {"https://evil.example", "http://127.0.0.1:9000", "null", "http://localhost:8000"}) {
    EXPECT_FALSE(policy.check(request("127.0.0.1:8000", "", origin))) << origin;
  }
}

TEST(AccessPolicy, asks_for_the_key) {
  const AccessPolicy policy("open-sesame", true, "127.0.0.1");
  const auto status = policy.check(request("localhost"));
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kUnauthorized);
  EXPECT_TRUE(policy.check(request("localhost", "Bearer open-sesame")));
  EXPECT_TRUE(policy.check(request("localhost", "bearer  open-sesame")));
  EXPECT_TRUE(policy.check(request("localhost", "Basic bWU6b3Blbi1zZXNhbWU=")));  // me:open-sesame
  for (const char* wrong :
       {"open-sesame", "Bearer", "Bearer ", "Bearer open-sesam", "Bearer open-sesamee", "Bearer OPEN-SESAME",
        "Basic open-sesame", "Basic b3Blbi1zZXNhbWU=", "Basic ***", "Basic "}) {
    EXPECT_FALSE(policy.check(request("localhost", wrong))) << wrong;
  }
}

}  // namespace
}  // namespace weir::api

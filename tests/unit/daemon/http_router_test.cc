// Which page answers.
#include "daemon/http/router.h"

#include <gtest/gtest.h>

namespace locksley::daemon {
namespace {

class HttpRouterTest : public ::testing::Test {
 protected:
  HttpRouterTest() {
    const auto page = [](const char* body) {
      return [body](const HttpRequest&) { return HttpReply{.body = body}; };
    };
    router.get("/metrics", page("metrics"));
    router.get_below("/", page("site"));
    router.get_below("/api/", page("api"));
    router.get("/api/version", page("version"));
  }
  std::string body(std::string_view path) const { return router.route({.method = "GET", .path = path}).body; }

  Router router;
};

TEST_F(HttpRouterTest, AnExactPathWinsThenTheLongestPrefix) {
  EXPECT_EQ(body("/metrics"), "metrics");
  EXPECT_EQ(body("/metrics/"), "site");
  EXPECT_EQ(body("/"), "site");
  EXPECT_EQ(body("/api/"), "api");
  EXPECT_EQ(body("/api/batches/1"), "api");
  EXPECT_EQ(body("/api"), "site");
  EXPECT_EQ(body("/api/version"), "version");
}

TEST_F(HttpRouterTest, KnownPathsTakeGetAndHeadOnly) {
  EXPECT_EQ(router.route({.method = "HEAD", .path = "/metrics"}).status, HttpStatus::ok);
  for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS", "get"}) {
    EXPECT_EQ(router.route({.method = method, .path = "/metrics"}).status, HttpStatus::method_not_allowed)
        << method;
  }
}

TEST(HttpRouterWithoutPagesTest, AnswersNotFoundWhateverTheMethod) {
  EXPECT_EQ(Router().route({.method = "GET", .path = "/"}).status, HttpStatus::not_found);
  EXPECT_EQ(Router().route({.method = "POST", .path = "/"}).status, HttpStatus::not_found);
}

}  // namespace
}  // namespace locksley::daemon

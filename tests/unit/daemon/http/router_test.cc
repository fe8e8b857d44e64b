// Which page answers a request.
#include "daemon/http/router.h"

#include <gtest/gtest.h>

#include <asio/io_context.hpp>
#include <optional>
#include <string>
#include <vector>

#include "daemon/http/login.h"

namespace locksley::daemon {
namespace {

class HttpRouterTest : public ::testing::Test {
 protected:
  HttpRouterTest() {
    const auto page = [](const char* body) {
      return [body](const HttpRequest&) { return HttpReply{.body = body}; };
    };
    router.get("/metrics", Access::kOperators, page("metrics"));
    router.get_below("/", Access::kEverybody, page("site"));
    router.get_below("/api/", Access::kUsers, page("api"));
    router.post_below("/api/", page("changed"));
    router.get("/api/version", Access::kEverybody, page("version"));
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
  EXPECT_EQ(router.route({.method = "HEAD", .path = "/metrics"}).status, HttpStatus::kOk);
  for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS", "get"}) {
    EXPECT_EQ(router.route({.method = method, .path = "/metrics"}).status, HttpStatus::kMethodNotAllowed)
        << method;
  }
}

TEST_F(HttpRouterTest, APostGoesWhereOneIsTaken) {
  EXPECT_EQ(router.route({.method = "POST", .path = "/api/batches/1/pause"}).body, "changed");
  EXPECT_TRUE(router.takes_body("POST", "/api/x"));
  EXPECT_FALSE(router.takes_body("PUT", "/api/x"));
  EXPECT_FALSE(router.takes_body("POST", "/api/version")) << "an exact path wins";
  EXPECT_FALSE(router.takes_body("POST", "/x"));
  const HttpReply refused = router.route({.method = "OPTIONS", .path = "/api/x"});
  EXPECT_EQ(refused.status, HttpStatus::kMethodNotAllowed);
  EXPECT_EQ(refused.fields, std::vector<std::string>{"Allow: GET, HEAD, POST"});
}

TEST_F(HttpRouterTest, WhatIsOfAllIsForOperatorsAlone) {
  HttpRequest request{.method = "GET", .path = "/metrics"};
  request.caller = {
      .kind = HttpCaller::Kind::kUser, .user = "alice", .groups = {config::CommandGroup::kRead}};
  EXPECT_EQ(router.route(request).status, HttpStatus::kForbidden);
  request.path = "/api/batches";
  EXPECT_EQ(router.route(request).body, "api");
  request.path = "/metrics";
  request.caller.groups = {config::CommandGroup::kAdmin};
  EXPECT_EQ(router.route(request).body, "metrics");
  request.caller = {.kind = HttpCaller::Kind::kToken};
  EXPECT_EQ(router.route(request).body, "metrics");
}

TEST_F(HttpRouterTest, PagesOfUsersAreRefusedWhileThereIsAReason) {
  std::optional<std::string> reason;
  router.refuse_pages_while([&reason] { return reason; });
  EXPECT_EQ(body("/api/batches"), "api");
  reason = "not now";
  const HttpReply refused = router.route({.method = "POST", .path = "/api/batches"});
  EXPECT_EQ(refused.status, HttpStatus::kUnavailable);
  EXPECT_EQ(refused.body, "not now\n");
  EXPECT_EQ(refused.fields, std::vector<std::string>{"Retry-After: 1"});
  EXPECT_EQ(body("/api/version"), "version");
}

TEST_F(HttpRouterTest, NobodyIsAskedToLogInForWhatIsEverybodys) {
  asio::io_context io;
  Authenticator authenticator(io.get_executor());
  HttpLogin login(authenticator, [](const std::string&) { return std::nullopt; });
  Router guarded(&login);
  guarded.get("/healthz", Access::kEverybody, [](const HttpRequest&) { return HttpReply{}; });
  guarded.get("/api", Access::kUsers, [](const HttpRequest&) { return HttpReply{}; });
  guarded.get("/metrics", Access::kOperators, [](const HttpRequest&) { return HttpReply{}; });
  EXPECT_EQ(guarded.login_for("/healthz"), nullptr);
  EXPECT_EQ(guarded.login_for("/nothing"), nullptr);
  EXPECT_EQ(guarded.login_for("/api"), &login);
  EXPECT_EQ(guarded.login_for("/metrics"), &login);
  EXPECT_EQ(router.login_for("/metrics"), nullptr) << "there is no login";
}

TEST(HttpRouterWithoutPagesTest, AnswersNotFoundWhateverTheMethod) {
  EXPECT_EQ(Router().route({.method = "GET", .path = "/"}).status, HttpStatus::kNotFound);
  EXPECT_EQ(Router().route({.method = "POST", .path = "/"}).status, HttpStatus::kNotFound);
}

}  // namespace
}  // namespace locksley::daemon

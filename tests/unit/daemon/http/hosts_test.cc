// Under which names pages are served while no login is configured.
#include "daemon/http/hosts.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>

#include "daemon/http/router.h"

namespace locksley::daemon {
namespace {

TEST(HttpHostsTest, AddressesLocalhostAndTheMachineAreServed) {
  const HttpHosts hosts("build-7");
  for (const char* host : {"127.0.0.1", "192.0.2.7:9770", "[::1]:9770", "localhost", "LocalHost:9770",
                           "build-7", "Build-7:9770"}) {
    EXPECT_TRUE(hosts.accepts(host)) << host;
  }
  for (const char* host : {"", ":9770", "evil.example", "build-7.evil.example", "build-7:x", "build-77",
                           "build", "localhost.evil.example"}) {
    EXPECT_FALSE(hosts.accepts(host)) << host;
  }
}

TEST(HttpHostsTest, AMachineWithoutANameHasNone) {
  const HttpHosts hosts("");
  EXPECT_FALSE(hosts.accepts(""));
  EXPECT_FALSE(hosts.accepts(":9770"));
}

TEST(HttpHostsTest, TheConfigurationAddsNames) {
  HttpHosts hosts("build-7");
  hosts.set({"Locksley.example"});
  EXPECT_TRUE(hosts.accepts("locksley.example:9770"));
  EXPECT_FALSE(hosts.accepts("evil.locksley.example"));
  EXPECT_TRUE(hosts.accepts("build-7"));
  hosts.set({});
  EXPECT_FALSE(hosts.accepts("locksley.example"));
}

TEST(HttpHostsTest, TheMachinesNameIsThatOfTheKernel) {
  std::array<char, 256> name{};
  ASSERT_EQ(::gethostname(name.data(), name.size() - 1), 0);
  EXPECT_EQ(name_of_machine(), name.data());
}

TEST(HttpHostsTest, EveryPageButThoseForEverybodyIsRefusedUnderAForeignName) {
  const HttpHosts hosts("build-7");
  Router router(nullptr, &hosts);
  const auto page = [](const HttpRequest&) { return HttpReply{}; };
  router.get("/", Access::kUsers, page);
  router.get("/metrics", Access::kOperators, page);
  router.get("/healthz", Access::kEverybody, page);
  router.get_below("/api/", Access::kUsers, page);
  router.post_below("/api/", page);
  const auto status = [&](std::string_view method, std::string_view path, std::string_view host) {
    return router.route({.method = method, .path = path, .host = host}).status;
  };
  for (const char* path : {"/", "/metrics", "/api/overview"}) {
    EXPECT_EQ(status("GET", path, "evil.example"), HttpStatus::kForbidden) << path;
    EXPECT_EQ(status("GET", path, ""), HttpStatus::kForbidden) << path << " of HTTP/1.0, without Host";
    EXPECT_EQ(status("GET", path, "127.0.0.1:9770"), HttpStatus::kOk) << path;
  }
  EXPECT_EQ(status("POST", "/api/batches/x/cancel", "evil.example"), HttpStatus::kForbidden);
  EXPECT_EQ(status("GET", "/healthz", "evil.example"), HttpStatus::kOk);
  EXPECT_EQ(status("GET", "/nothing", "evil.example"), HttpStatus::kNotFound);
}

TEST(HttpHostsTest, WithALoginEveryNameIsServed) {
  const HttpHosts hosts("build-7");
  Router router(nullptr, &hosts);
  router.get("/", Access::kUsers, [](const HttpRequest&) { return HttpReply{}; });
  const HttpCaller alice{.kind = HttpCaller::Kind::kUser, .user = "alice"};
  EXPECT_EQ(
      router.route({.method = "GET", .path = "/", .host = "behind-a-proxy.example", .caller = alice}).status,
      HttpStatus::kOk);
}

}  // namespace
}  // namespace locksley::daemon

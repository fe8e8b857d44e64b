// Which requests may make changes, and which hosts are addresses.
#include "daemon/http/same_origin.h"

#include <gtest/gtest.h>

namespace locksley::daemon {
namespace {

// A request as a browser sends it from one of our pages.
HttpRequest ours() {
  return {.method = "POST",
          .host = "127.0.0.1:9770",
          .origin = "http://127.0.0.1:9770",
          .content_type = "application/json",
          .sec_fetch_site = "same-origin",
          .x_locksley_request = "1"};
}

HttpStatus status(const HttpRequest& request) {
  const auto refused = refuse_foreign(request);
  return refused ? refused->status : HttpStatus::kOk;
}

TEST(SameOriginTest, LetsOurPagesAndProgramsChangeThings) {
  EXPECT_EQ(status(ours()), HttpStatus::kOk);
  HttpRequest program = ours();
  program.origin = program.sec_fetch_site = {};
  EXPECT_EQ(status(program), HttpStatus::kOk);
  program.content_type = "Application/JSON; charset=utf-8";
  EXPECT_EQ(status(program), HttpStatus::kOk);
  HttpRequest behind_a_proxy = ours();
  behind_a_proxy.host = "Locksley.example";
  behind_a_proxy.origin = "https://locksley.example";
  EXPECT_EQ(status(behind_a_proxy), HttpStatus::kOk);
}

TEST(SameOriginTest, RefusesOtherOrigins) {
  for (const char* origin :
       {"null", "http://evil.example", "http://127.0.0.1", "http://127.0.0.1:9771",
        "http://127.0.0.1:9770.evil.example", "http://127.0.0.1:9770/", "127.0.0.1:9770", "file://",
        "ftp://127.0.0.1:9770", "http://evil.example http://127.0.0.1:9770"}) {
    HttpRequest request = ours();
    request.origin = origin;
    EXPECT_EQ(status(request), HttpStatus::kForbidden) << origin;
  }
  HttpRequest nowhere = ours();
  nowhere.host = {};
  nowhere.origin = "http://";
  EXPECT_EQ(status(nowhere), HttpStatus::kForbidden) << "HTTP/1.0 without Host";
}

TEST(SameOriginTest, RefusesWhatTheBrowserSaysIsForeign) {
  for (const char* site : {"cross-site", "same-site", "none", "Same-Origin"}) {
    HttpRequest request = ours();
    request.origin = {};
    request.sec_fetch_site = site;
    EXPECT_EQ(status(request), HttpStatus::kForbidden) << site;
  }
}

TEST(SameOriginTest, RefusesWhatAFormCanSend) {
  for (const char* type : {"", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data",
                           "application/json-patch", "text/plain; application/json"}) {
    HttpRequest request = ours();
    request.content_type = type;
    EXPECT_EQ(status(request), HttpStatus::kUnsupportedMediaType) << type;
  }
  for (const char* field : {"", "0", "true", "1, 1"}) {
    HttpRequest request = ours();
    request.x_locksley_request = field;
    EXPECT_EQ(status(request), HttpStatus::kForbidden) << field;
  }
}

TEST(PlainHostTest, IsAnAddressOrLocalhost) {
  for (const char* host :
       {"127.0.0.1", "127.0.0.1:9770", "10.1.2.3:1", "[::1]", "[::1]:9770", "localhost", "LOCALHOST:9770"}) {
    EXPECT_TRUE(is_plain_host(host)) << host;
  }
  for (const char* host :
       {"[fe80::1%eth0]", "[::1%a/b]:9770", "", "evil.example", "evil.example:9770", "localhost.evil.example",
        "127.0.0.1.evil.example", "127.1", "0x7f.1", "::1", "[::1", "[localhost]", "[127.0.0.1]",
        "127.0.0.1:", "127.0.0.1:x", "localhost:9770@evil.example", " localhost"}) {
    EXPECT_FALSE(is_plain_host(host)) << host;
  }
}

}  // namespace
}  // namespace locksley::daemon

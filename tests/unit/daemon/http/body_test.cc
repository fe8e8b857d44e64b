// Bodies of requests, and replies that come later, as clients see them.
#include <gmock/gmock.h>

#include <asio/post.hpp>
#include <chrono>
#include <optional>
#include <string>

#include "tests/support/http_fixture.h"

namespace locksley::daemon {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using namespace std::chrono_literals;

std::string post(const std::string& path, const std::string& body, const std::string& fields = {}) {
  return "POST " + path + " HTTP/1.1\r\nHost: h\r\n" + fields +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

class HttpBodyTest : public HttpServerFixture {
 protected:
  HttpBodyTest() {
    router_.get("/page", Access::kEverybody, [](const HttpRequest&) { return HttpReply{.body = "page"}; });
    router_.get_below("/api/", Access::kEverybody,
                      [](const HttpRequest&) { return HttpReply{.body = "got"}; });
    router_.post_below("/api/", [this](const HttpRequest& request) -> HttpReply {
      const std::string body(request.body);
      if (request.path == "/api/now") return {.body = "now " + body};
      return {.later = [this, body](const HttpReply::Answer& answer) {
        if (body == "within") return answer({.body = "answered within"});
        if (body != "never") asio::post(io_, [answer, body] { answer({.body = "later " + body}); });
      }};
    });
  }
};

TEST_F(HttpBodyTest, ReachesThePageWholeAndTheNextRequestFollows) {
  HttpClient client(start());
  client.send(post("/api/now", "one") + post("/api/now", "") + post("/api/now", "two\r\n\r\n") +
              "GET /page HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_THAT(client.read_reply(), EndsWith("\r\n\r\nnow one"));
  EXPECT_THAT(client.read_reply(), EndsWith("\r\n\r\nnow "));
  EXPECT_THAT(client.read_reply(), EndsWith("\r\n\r\nnow two\r\n\r\n"));
  EXPECT_THAT(client.read_reply(), EndsWith("\r\n\r\npage"));
}

TEST_F(HttpBodyTest, MayComeByteByByte) {
  HttpClient client(start());
  for (const char c : post("/api/now", "slowly")) client.send(std::string(1, c));
  EXPECT_THAT(client.read_reply(), EndsWith("now slowly"));
}

TEST_F(HttpBodyTest, HasALimitThatIsExact) {
  const auto server = start({.max_body_bytes = 100});
  HttpClient client(server);
  client.send(post("/api/now", std::string(100, 'x')));
  EXPECT_THAT(client.read_reply(), EndsWith("now " + std::string(100, 'x')));
  EXPECT_THAT(ask(server, post("/api/now", std::string(101, 'x'), "Connection: close\r\n")),
              AllOf(StartsWith("HTTP/1.1 413 "), HasSubstr("Connection: close\r\n"), Not(HasSubstr("now"))));
}

TEST_F(HttpBodyTest, IsNotTakenForTheNextRequestWhereNobodyReadsIt) {
  const std::string smuggled = "GET /page HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
  const auto server = start();
  for (const std::string& request :
       {post("/page", smuggled), post("/nothing", smuggled),
        "PUT /api/now HTTP/1.1\r\nHost: h\r\n\r\n" + smuggled,
        "GET /page HTTP/1.1\r\nHost: h\r\nContent-Length: 40\r\n\r\n" + smuggled,
        "POST /api/now HTTP/1.1\r\nHost: h\r\n\r\n" + smuggled,
        "POST /api/now HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n" +
            smuggled}) {
    EXPECT_THAT(ask(server, request),
                AllOf(ContainsRegex("^HTTP/1.1 (4..|501) "), Not(HasSubstr("\r\n\r\npage"))))
        << request;
  }
}

TEST_F(HttpBodyTest, IsAskedForWhereTheClientWaitsForThat) {
  HttpClient client(start());
  const std::string request = post("/api/now", "body", "Expect: 100-continue\r\n");
  client.send(request.substr(0, request.size() - 4));
  client.read_first_byte();
  client.send("body");
  EXPECT_THAT(client.read_reply(HttpClient::Has::kHeadAlone), StartsWith("HTTP/1.1 100 Continue\r\n\r\n"));
  EXPECT_THAT(client.read_reply(), EndsWith("now body"));
}

TEST_F(HttpBodyTest, ThatDoesNotComeEndsTheConnection) {
  const std::string request = post("/api/now", "body");
  EXPECT_EQ(ask(start({.head_timeout = 50ms}), request.substr(0, request.size() - 1)), "");
}

TEST_F(HttpBodyTest, AReplyMayComeLater) {
  HttpClient client(start());
  client.send(post("/api/later", "a") + post("/api/later", "within") + post("/api/later", "b"));
  EXPECT_THAT(client.read_reply(), EndsWith("\r\n\r\nlater a"));
  EXPECT_THAT(client.read_reply(), EndsWith("\r\n\r\nanswered within"));
  EXPECT_THAT(client.read_reply(), EndsWith("\r\n\r\nlater b"));
}

TEST_F(HttpBodyTest, AReplyThatComesLaterIsNotSentIfPagesAreRefusedByThen) {
  std::optional<std::string> reason;
  router_.refuse_pages_while([&reason] { return reason; });
  router_.get("/batch", Access::kUsers, [this, &reason](const HttpRequest&) -> HttpReply {
    return {.later = [this, &reason](const HttpReply::Answer& answer) {
      asio::post(io_, [&reason, answer] {
        reason = "this daemon was paused";
        answer({.body = "what the batch was"});
      });
    }};
  });
  HttpClient client(start());
  client.send("GET /batch HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_THAT(client.read_reply(),
              AllOf(StartsWith("HTTP/1.1 503 "), EndsWith("\r\n\r\nthis daemon was paused\n")));
}

TEST_F(HttpBodyTest, AReplyThatNeverComesIsReplacedByOneThatSaysSo) {
  const auto server = start({.answer_timeout = 50ms});
  HttpClient client(server);
  for (const std::string body : {"never", "never"}) {
    client.send(post("/api/later", body));
    EXPECT_THAT(client.read_reply(), AllOf(StartsWith("HTTP/1.1 503 "), HasSubstr("Retry-After: 1"),
                                           HasSubstr("no answer in time")));
  }
  client.send(post("/api/later", "again"));
  EXPECT_THAT(client.read_reply(), EndsWith("later again"));
}

TEST_F(HttpBodyTest, AReplyThatComesTooLateIsLeftOut) {
  HttpReply::Answer late;
  router_.get_below("/api/late/", Access::kEverybody, [](const HttpRequest&) { return HttpReply{}; });
  router_.post_below("/api/late/", [&late](const HttpRequest&) -> HttpReply {
    return {.later = [&late](const HttpReply::Answer& answer) {
      late = answer;
      EXPECT_FALSE(late.waiting().expired());
    }};
  });
  const auto server = start({.answer_timeout = 50ms});
  HttpClient client(server);
  client.send(post("/api/late/", "x"));
  EXPECT_THAT(client.read_reply(), HasSubstr("no answer in time"));
  asio::post(io_, [&late] {
    EXPECT_TRUE(late.waiting().expired()) << "a search for it may end";
    std::exchange(late, {})({.body = "late"});
  });
  client.send(post("/api/later", "next"));
  EXPECT_THAT(client.read_reply(), EndsWith("later next"));
}

}  // namespace
}  // namespace locksley::daemon

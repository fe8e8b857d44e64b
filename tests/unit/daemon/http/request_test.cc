// Which bytes are an HTTP request, and which are not.
#include "daemon/http/request.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace locksley::daemon {
namespace {

HttpStatus refused(const std::string& head) {
  const auto request = parse_head(head);
  return request ? HttpStatus::kOk : request.error();
}

std::string with_field(const std::string& field) {
  return "GET / HTTP/1.1\r\nHost: h\r\n" + field + "\r\n\r\n";
}

TEST(HttpRequestTest, SplitsPathAndQuery) {
  const auto request =
      parse_head("GET /api/batches?state=done&x=%20 HTTP/1.1\r\nHost: localhost:9770\r\n\r\n");
  ASSERT_TRUE(request);
  EXPECT_EQ(request->method, "GET");
  EXPECT_EQ(request->path, "/api/batches");
  EXPECT_EQ(request->query, "state=done&x=%20");
}

TEST(HttpRequestTest, IsCompleteAtItsEmptyLine) {
  const std::string head = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
  for (std::size_t i = 0; i < head.size(); ++i) EXPECT_FALSE(head_length(head.substr(0, i))) << i;
  EXPECT_EQ(head_length(head + "GET /next"), head.size());
}

TEST(HttpRequestTest, KnowsOtherProtocolsByTheirFirstLine) {
  for (const std::string_view bytes : {"", "G", "GET / HTTP/1.1", "GET / HTTP/1.1\r\nHost: a\r\n", "*"}) {
    EXPECT_TRUE(may_be_http(bytes)) << bytes;
  }
  for (const std::string_view bytes : {"*1\r\n$4\r\nPING\r\n", "PING\r\n", "\x16\x03\x01", "\r\n"}) {
    EXPECT_FALSE(may_be_http(bytes)) << bytes;
  }
}

TEST(HttpRequestTest, KeepsAliveAsTheVersionAndTheClientSay) {
  const auto keeps = [](const std::string& version, const std::string& connection) {
    const auto request = parse_head("GET / " + version + "\r\nHost: h\r\n" + connection + "\r\n");
    return request && request->keep_alive;
  };
  EXPECT_TRUE(keeps("HTTP/1.1", ""));
  EXPECT_FALSE(keeps("HTTP/1.1", "Connection: close\r\n"));
  EXPECT_FALSE(keeps("HTTP/1.1", "connection: TE, Close\r\n"));
  EXPECT_FALSE(keeps("HTTP/1.1", "Connection: keep-alive\r\nConnection: close\r\n"));
  EXPECT_TRUE(keeps("HTTP/1.1", "Connection: closed\r\n"));
  EXPECT_FALSE(keeps("HTTP/1.0", ""));
  EXPECT_TRUE(keeps("HTTP/1.0", "Connection: Keep-Alive\r\n"));
}

TEST(HttpRequestTest, AcceptsWhatClientsSend) {
  EXPECT_EQ(refused(with_field("Accept: */*\r\nUser-Agent: curl/7.88.1\r\nX-Empty:\r\nX-Tab:\ta\tb\t")),
            HttpStatus::kOk);
  EXPECT_EQ(refused(with_field("Content-Length: 0")), HttpStatus::kOk);
  EXPECT_EQ(refused("GET / HTTP/1.0\r\n\r\n"), HttpStatus::kOk) << "HTTP/1.0 needs no Host";
}

TEST(HttpRequestTest, RefusesWrongRequestLines) {
  for (const char* line : {"", "GET", "GET /", "GET  HTTP/1.1", "GET / / HTTP/1.1", " GET / HTTP/1.1",
                           "GET / HTTP/1.1 ", "GET x HTTP/1.1", "GET http://h/ HTTP/1.1", "G@T / HTTP/1.1",
                           "GET /\x01 HTTP/1.1", "GET /\xc3\xa9 HTTP/1.1", "GET / http/1.1",
                           "GET / HTTP/1.11", "GET /\tHTTP/1.1", "GET / HTTP/1.1\n"}) {
    EXPECT_EQ(refused(std::string(line) + "\r\nHost: h\r\n\r\n"), HttpStatus::kBadRequest) << line;
  }
  EXPECT_EQ(refused("GET / HTTP/2.0\r\nHost: h\r\n\r\n"), HttpStatus::kVersionNotSupported);
  EXPECT_EQ(refused("GET /" + std::string(kMaxTargetBytes, 'a') + " HTTP/1.1\r\nHost: h\r\n\r\n"),
            HttpStatus::kUriTooLong);
}

TEST(HttpRequestTest, RefusesWrongFields) {
  for (const char* field : {"no colon", ": no name", "Name : space before the colon", " folded: line",
                            "Na(me: x", "X: a\x01z", "X: a\nY: b", "X: a\rb", "Host: twice"}) {
    EXPECT_EQ(refused(with_field(field)), HttpStatus::kBadRequest) << field;
  }
  EXPECT_EQ(refused("GET / HTTP/1.1\r\n\r\n"), HttpStatus::kBadRequest) << "no Host";
}

TEST(HttpRequestTest, HasTheFirstFieldAccept) {
  EXPECT_EQ(parse_head(with_field("ACCEPT: text/plain;q=0.5 , */*\r\nAccept: b"))->accept,
            "text/plain;q=0.5 , */*");
  EXPECT_EQ(parse_head("GET / HTTP/1.1\r\nHost: h\r\n\r\n")->accept, "");
}

TEST(HttpRequestTest, HasTheFieldAuthorizationOnceAtMost) {
  const std::string head = with_field("authoriZation:  Basic YTpi ");
  EXPECT_EQ(parse_head(head)->authorization, "Basic YTpi");
  EXPECT_EQ(parse_head("GET / HTTP/1.1\r\nHost: h\r\n\r\n")->authorization, "");
  EXPECT_EQ(refused(with_field("Authorization: a\r\nAuthorization: a")), HttpStatus::kBadRequest);
}

TEST(HttpRequestTest, RefusesTooManyFields) {
  std::string fields = "Host: h\r\n";
  for (std::size_t i = 1; i < kMaxFields; ++i) fields += "X: y\r\n";
  EXPECT_EQ(refused("GET / HTTP/1.1\r\n" + fields + "\r\n"), HttpStatus::kOk);
  EXPECT_EQ(refused("GET / HTTP/1.1\r\n" + fields + "X: y\r\n\r\n"), HttpStatus::kHeaderFieldsTooLarge);
}

// Request smuggling past a proxy: a body whose length two readers may read differently.
TEST(HttpRequestTest, RefusesAmbiguousLengths) {
  EXPECT_EQ(refused(with_field("Transfer-Encoding: chunked")), HttpStatus::kNotImplemented);
  EXPECT_EQ(refused(with_field("Content-Length: 0\r\nTransfer-Encoding: identity")),
            HttpStatus::kNotImplemented);
  EXPECT_EQ(refused(with_field("Content-Length: 99999999999999999999999999")), HttpStatus::kContentTooLarge);
  for (const char* length :
       {"", "-1", "+0", "0x0", "0, 0", "0 0", "1e1", "0\r\nContent-Length: 0", "0\r\ncontent-length: 1"}) {
    EXPECT_EQ(refused(with_field(std::string("Content-Length: ") + length)), HttpStatus::kBadRequest)
        << length;
  }
}

TEST(HttpRequestTest, OnlyAPostHasABodyAndItSaysHowLong) {
  EXPECT_EQ(refused(with_field("Content-Length: 1")), HttpStatus::kContentTooLarge);
  const std::string post = "POST / HTTP/1.1\r\nHost: h\r\n";
  EXPECT_EQ(refused(post + "\r\n"), HttpStatus::kLengthRequired);
  EXPECT_EQ(parse_head(post + "Content-Length: 012\r\n\r\n")->content_length, 12u);
  EXPECT_EQ(parse_head(post + "Content-Length: 0\r\n\r\n")->content_length, 0u);
}

TEST(HttpRequestTest, KnowsOfOneExpectationAlone) {
  EXPECT_TRUE(parse_head(with_field("Expect: 100-Continue"))->wants_continue);
  EXPECT_FALSE(parse_head(with_field("X: y"))->wants_continue);
  EXPECT_EQ(refused(with_field("Expect: a rain of gold")), HttpStatus::kExpectationFailed);
}

TEST(HttpRequestTest, HasFieldsThatMatterOnceAtMost) {
  for (const char* name : {"Host", "Authorization", "Origin", "Content-Type", "If-None-Match",
                           "Sec-Fetch-Site", "X-Locksley-Request", "Expect"}) {
    const std::string field = std::string(name) + ": 100-continue";
    EXPECT_EQ(refused("GET / HTTP/1.0\r\n" + field + "\r\n\r\n"), HttpStatus::kOk) << name;
    EXPECT_EQ(refused("GET / HTTP/1.0\r\n" + field + "\r\n" + field + "\r\n\r\n"), HttpStatus::kBadRequest)
        << name;
  }
  const std::string head = with_field("Origin: null\r\nX-LOCKSLEY-REQUEST: 1");
  const auto request = parse_head(head);
  EXPECT_EQ(request->origin, "null");
  EXPECT_EQ(request->x_locksley_request, "1");
  EXPECT_EQ(request->content_type, "");
}

}  // namespace
}  // namespace locksley::daemon

// The HTTP server as clients see it: over real sockets on loopback, with the server on a thread of
// its own.
// Length: one class, a short test for each promise.
#include "daemon/http/server.h"

#include <gmock/gmock.h>

#include <asio/post.hpp>
#include <future>
#include <list>
#include <semaphore>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "daemon/http/payer.h"
#include "tests/support/http_fixture.h"
#include "tests/unit/daemon/http/client_at.h"

namespace locksley::daemon {
namespace {

using asio::ip::tcp;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using namespace std::chrono_literals;

constexpr std::size_t kLarge = 32u << 20;  // more than the kernel buffers between two sockets
constexpr int kSmallBuffer = ClientAt::kReceiveBuffer;
const std::string kGetLarge = "GET /large HTTP/1.1\r\nHost: h\r\n\r\n";
const std::string kGet = "GET /page HTTP/1.1\r\nHost: h\r\n\r\n";
const std::string kGetJobs = "GET /jobs HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
const std::string kGetAndClose = "GET /page HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";

using Client = HttpClient;

class HttpServerTest : public HttpServerFixture {
 protected:
  HttpServerTest() {
    router_.get("/page", Access::kEverybody, [](const HttpRequest&) { return HttpReply{.body = "hello\n"}; });
    router_.get("/large", Access::kEverybody,
                [](const HttpRequest&) { return HttpReply{.body = std::string(kLarge, 'x')}; });
    router_.get("/jobs", Access::kUsers, [](const HttpRequest&) { return HttpReply{.body = "jobs\n"}; });
    router_.get_below("/changes/", Access::kUsers, [](const HttpRequest&) { return HttpReply{}; });
    router_.post_below("/changes/", [](const HttpRequest&) { return HttpReply{}; });
    router_.get("/throws", Access::kEverybody,
                [](const HttpRequest&) -> HttpReply { throw std::runtime_error("a secret"); });
  }
};

TEST_F(HttpServerTest, ReportsTheRealPortAndServesOnIt) {
  const auto server = start();
  EXPECT_NE(server.port(), 0);
  EXPECT_THAT(
      ask(server, kGetAndClose),
      AllOf(StartsWith("HTTP/1.1 200 OK\r\n"), HasSubstr("Content-Type: text/plain; charset=utf-8\r\n"),
            HasSubstr("Content-Length: 6\r\n"), EndsWith("Connection: close\r\n\r\nhello\n")));
}

TEST_F(HttpServerTest, AcceptsManyConnectionsInOneTurn) {
  const tcp::endpoint server = listen({});
  std::list<Client> clients;
  for (int n = 0; n < 12; ++n) clients.emplace_back(server);
  {
    const ThreadRoleScope io_thread(kIoThread);
    for (int turns = 0; turns < 6; ++turns)
      io_.poll_one();  // the coroutine's start, and the first connection
  }
  server_->stop();
  run();
  for (Client& client : clients)
    EXPECT_EQ(client.read_to_end(), "") << "what was not accepted ends with a reset";
}

TEST_F(HttpServerTest, SaysWhyItCannotListen) {
  const auto first = start();
  HttpServer second(io_, router_);
  const auto taken = second.listen("127.0.0.1", first.port());
  ASSERT_FALSE(taken);
  EXPECT_THAT(taken.error(),
              AllOf(HasSubstr("127.0.0.1 port " + std::to_string(first.port())), HasSubstr("in use")));
  EXPECT_THAT(second.listen("nowhere", 0).error(), HasSubstr("nowhere"));
}

TEST_F(HttpServerTest, HeadIsGetWithoutTheBody) {
  EXPECT_THAT(ask(start(), "HEAD /page HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"),
              AllOf(HasSubstr("Content-Length: 6\r\n"), EndsWith("\r\n\r\n")));
}

TEST_F(HttpServerTest, KeepsTheConnectionForTheNextRequest) {
  Client client(start());
  for (int i = 0; i < 3; ++i) {
    client.send(kGet);
    EXPECT_THAT(client.read_reply(), AllOf(HasSubstr("Connection: keep-alive\r\n"), EndsWith("hello\n")));
  }
}

TEST_F(HttpServerTest, AnswersPipelinedRequestsInOrder) {
  Client client(start());
  client.send(kGet + "GET /none HTTP/1.1\r\nHost: h\r\n\r\n" + kGetAndClose);
  EXPECT_THAT(client.read_reply(), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(client.read_reply(), StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(client.read_to_end(), AllOf(StartsWith("HTTP/1.1 200"), EndsWith("hello\n")));
}

TEST_F(HttpServerTest, TakesARequestByteByByte) {
  Client client(start());
  for (const char byte : kGetAndClose) client.send(std::string(1, byte));
  EXPECT_THAT(client.read_to_end(), EndsWith("hello\n"));
}

TEST_F(HttpServerTest, SendsLargeRepliesWhole) {
  const std::string reply = ask(start(), "GET /large HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(reply.substr(0, 300), HasSubstr("Content-Length: " + std::to_string(kLarge) + "\r\n"));
  EXPECT_EQ(reply.size() - (reply.find("\r\n\r\n") + 4), kLarge);
}

TEST_F(HttpServerTest, RefusesOtherMethodsAndUnknownPaths) {
  const auto server = start();
  EXPECT_THAT(ask(server, "POST /page HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n"),
              AllOf(StartsWith("HTTP/1.1 405"), HasSubstr("Allow: GET, HEAD\r\n")));
  EXPECT_THAT(ask(server, "GET /none HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"),
              StartsWith("HTTP/1.1 404"));
}

TEST_F(HttpServerTest, KeepsToItselfWhatAPageThrows) {
  EXPECT_THAT(ask(start(), "GET /throws HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"),
              AllOf(StartsWith("HTTP/1.1 500"), Not(HasSubstr("secret"))));
}

// A refusal arrives completely, before the end of the connection, even if the client has sent more
// than was read.
TEST_F(HttpServerTest, SaysWhatIsWrongAndCloses) {
  const auto server = start();
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {std::string("\0\xff\x13garbage\r\n\r\n", 14), "400"},
      {std::string(100'000, 'a'), "431"},
      {"GET / HTTP/1.1\r\nHost: h\r\nX: " + std::string(100'000, 'a') + "\r\n\r\n", "431"},
      {"GET /" + std::string(5'000, 'a') + " HTTP/1.1\r\nHost: h\r\n\r\n", "414"},
      {"POST /page HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\n" + std::string(100'000, 'b'), "405"},
      {"POST /page HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", "501"},
      {"GET /page HTTP/3.0\r\nHost: h\r\n\r\n", "505"},
      {"PING\r\n\r\n", "400"},
  };
  for (const auto& [bytes, status] : wrong) {
    EXPECT_THAT(ask(server, bytes), AllOf(StartsWith("HTTP/1.1 " + status + " "),
                                          HasSubstr("Connection: close\r\n"), Not(HasSubstr("["))))
        << bytes.substr(0, 60);
  }
  EXPECT_THAT(ask(server, kGetAndClose), EndsWith("hello\n")) << "the server lives on";
}

TEST_F(HttpServerTest, CutsOffAClientThatDoesNotFinishItsRequest) {
  Client client(listen({.head_timeout = 50ms}));
  client.send("GET /page HTTP/1.1\r\n");
  run();
  EXPECT_EQ(client.read_to_end(), "");
}

TEST_F(HttpServerTest, TimeForARequestDoesNotGrowWithEveryByte) {
  Client client(listen({.head_timeout = 100ms, .idle_timeout = 1h}));
  client.send(kGet);
  run();
  client.read_reply();
  const auto began = std::chrono::steady_clock::now();
  std::future<std::string> end = std::async(std::launch::async, [&] { return client.read_to_end(); });
  while (end.wait_for(5ms) != std::future_status::ready) {
    ASSERT_LT(std::chrono::steady_clock::now() - began, 60s) << "a client that trickles is served for ever";
    client.send("G");
  }
}

TEST_F(HttpServerTest, CutsOffAConnectionThatStaysIdle) {
  Client client(listen({.idle_timeout = 50ms}));
  client.send(kGet);
  run();
  client.read_reply();
  EXPECT_EQ(client.read_to_end(), "");
}

TEST_F(HttpServerTest, CutsOffAClientThatDoesNotRead) {
  Client client(start({.write_timeout = 50ms}), kSmallBuffer);
  client.send(kGetLarge);
  client.read_first_byte();
  // The reply is being written: that ends only when it is complete, or aborted.
  server_->stop();
  thread_.join();
  EXPECT_LT(client.read_to_end().size(), kLarge);
}

TEST_F(HttpServerTest, ANewcomerTakesThePlaceOfWhoeverIsIdleLongest) {
  const auto server = start({.max_connections = 2});
  Client first(server);
  first.send(kGet);
  first.read_reply();
  Client second(server);
  second.send(kGet);
  second.read_reply();
  EXPECT_THAT(ask(server, kGetAndClose), EndsWith("hello\n"));
  EXPECT_EQ(first.read_to_end(), "");
  second.send(kGet);
  EXPECT_THAT(second.read_reply(), EndsWith("hello\n"));
}

TEST_F(HttpServerTest, ANewcomerTakesThePlaceOfTheHalfSentHeadThatBeganFirst) {
  const auto server = start({.max_connections = 2});
  // Each half comes with a whole request: the server has it when it has replied to that.
  Client first(server);
  first.send(kGet + "GET /page HTTP/1.1\r\n");
  first.read_reply();
  Client second(server);
  second.send(kGet + "GET /page HTTP/1.1\r\n");
  second.read_reply();
  EXPECT_THAT(ask(server, kGetAndClose), EndsWith("hello\n"));
  EXPECT_EQ(first.read_to_end(), "");
  second.send("Host: h\r\n\r\n");
  EXPECT_THAT(second.read_reply(), EndsWith("hello\n"));
}

TEST_F(HttpServerTest, AByteAtATimeKeepsNoPlace) {
  const auto server = start({.max_connections = 2});
  // Each half comes with a whole request: the server has it when it has replied to that.
  Client trickles(server);
  trickles.send(kGet + "G");
  trickles.read_reply();
  Client second(server);
  second.send(kGet + "GET /page HTTP/1.1\r\n");
  second.read_reply();
  for (const char* byte : {"E", "T", " "}) trickles.send(byte);
  EXPECT_THAT(ask(server, kGetAndClose), EndsWith("hello\n"));
  EXPECT_THAT(trickles.read_to_end(), Not(HasSubstr("HTTP")));
  second.send("Host: h\r\n\r\n");
  EXPECT_THAT(second.read_reply(), EndsWith("hello\n"));
}

TEST_F(HttpServerTest, ANewcomerTakesThePlaceOfAHalfSentBody) {
  const auto server = start({.max_connections = 1});
  Client first(server);
  first.send(
      "POST /changes/x HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_THAT(first.read_reply(Client::Has::kHeadAlone), StartsWith("HTTP/1.1 100 "));
  EXPECT_THAT(ask(server, kGetAndClose), EndsWith("hello\n"));
  EXPECT_EQ(first.read_to_end(), "");
}

TEST_F(HttpServerTest, BeyondTheLimitPagesForEverybodyAreServedAndNoOthers) {
  const auto server = start({.max_connections = 1, .reserved_connections = 1, .stall_timeout = 1h});
  Client first(server, kSmallBuffer);
  first.send(kGetLarge);
  first.read_first_byte();
  Client second(server);
  second.send(kGet);
  EXPECT_THAT(second.read_to_end(), AllOf(StartsWith("HTTP/1.1 200 "), EndsWith("hello\n")));
  Client third(server);
  third.send(kGetJobs);
  EXPECT_THAT(third.read_to_end(), AllOf(StartsWith("HTTP/1.1 503 "), HasSubstr("Retry-After: 1\r\n"),
                                         EndsWith("only /healthz and /readyz are served; retry later\n")));
  EXPECT_EQ(first.read_reply().substr(0, 12), "HTTP/1.1 200");
  Client fourth(server);
  fourth.send(kGetJobs);
  EXPECT_THAT(fourth.read_reply(), EndsWith("jobs\n"));
}

TEST_F(HttpServerTest, AReservedPlaceIsTakenFromAClientThatSendsNothing) {
  const auto server = start({.max_connections = 1, .reserved_connections = 1, .stall_timeout = 1h});
  Client first(server, kSmallBuffer);
  first.send(kGetLarge);
  first.read_first_byte();
  Client silent(server);
  EXPECT_THAT(ask(server, kGetAndClose), EndsWith("hello\n"));
  EXPECT_EQ(silent.read_to_end(), "");
  Client lingers(server);  // has its reply, and does not close
  lingers.send(kGet);
  lingers.read_reply();
  EXPECT_THAT(ask(server, kGetAndClose), EndsWith("hello\n"));
}

TEST_F(HttpServerTest, ANewcomerIsRefusedWhileAllPlacesAreAtWork) {
  const auto server = start({.max_connections = 1, .reserved_connections = 0, .stall_timeout = 1h});
  Client first(server, kSmallBuffer);
  first.send(kGetLarge);
  first.read_first_byte();
  EXPECT_THAT(ask(server, kGetAndClose), Not(HasSubstr("hello")));
  EXPECT_EQ(first.read_reply().substr(0, 12), "HTTP/1.1 200");
  EXPECT_THAT(ask(server, kGetAndClose), EndsWith("hello\n"));
}

TEST(HttpPayerTest, AddressesOfOneNetworkAreOnePayer) {
  const auto network = [](const char* text) { return network_of(asio::ip::make_address(text)).to_string(); };
  EXPECT_EQ(network("2001:db8::1:2:3:4"), network("2001:db8::5"));
  EXPECT_NE(network("2001:db8:0:1::5"), network("2001:db8::5"));
  EXPECT_EQ(network("::ffff:192.0.2.7"), "192.0.2.7");
}

TEST_F(HttpServerTest, ThePayerOfMostConnectionsLosesTheQuietest) {
  const auto server = start({.max_connections = 3, .reserved_connections = 0, .stall_timeout = 1h});
  ClientAt reads(kHere, server, kGetLarge);
  reads.read(1);
  ClientAt stalls(kHere, server, kGetLarge);
  stalls.read(1);
  ClientAt neither(kThere, server, kGetLarge);
  neither.read(1);
  reads.read(kLarge / 4);  // so the server has written some of it after the last of `stalls`
  for (const char* address : {kHere, kThere}) {
    EXPECT_THAT(ClientAt::ask(address, server, kGetAndClose), Not(HasSubstr("hello")))
        << address << " would hold no less than the one that gives way";
  }
  EXPECT_THAT(ClientAt::ask(kElsewhere, server, kGetAndClose), EndsWith("hello\n"));
  EXPECT_LT(stalls.read_to_end().size(), kLarge / 4);
  reads.read(kLarge / 4);
  neither.read(kLarge / 4);
}

TEST_F(HttpServerTest, AReplyThatStallsGivesWayToItsOwnAddress) {
  const auto server =
      start({.max_connections = 1, .reserved_connections = 0, .write_timeout = 1h, .stall_timeout = 20ms});
  ClientAt stalls(kHere, server, kGetLarge);
  stalls.read(1);
  const auto began = std::chrono::steady_clock::now();
  while (!ask(server, kGetAndClose).ends_with("hello\n")) {
    ASSERT_LT(std::chrono::steady_clock::now() - began, 60s) << "a client that reads nothing keeps its place";
  }
  EXPECT_LT(stalls.read_to_end().size(), kLarge / 4);
}

TEST_F(HttpServerTest, ACrowdDoesNotCloseAConnectionThatHasJustCome) {
  const auto server = start({.max_connections = 2, .reserved_connections = 0, .stall_timeout = 1h});
  ClientAt stalls(kHere, server, kGetLarge);
  stalls.read(1);
  ClientAt comes(kThere, server, kGet + "GET /page HTTP/1.1\r\n");
  comes.read(1);
  EXPECT_THAT(ClientAt::ask(kHere, server, kGetAndClose), Not(HasSubstr("hello")));
  comes.send("Host: h\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(comes.read_to_end(), EndsWith("Connection: close\r\n\r\nhello\n"));
}

// Replies that are being made give way, too, but their pages go on, so that there must not be too
// many.
TEST_F(HttpServerTest, SlowPagesKeepNoOtherAddressOut) {
  std::counting_semaphore<> asked(0);
  std::vector<HttpReply::Answer> answers;
  const auto later = [&](HttpReply::Answer answer) {
    answers.push_back(std::move(answer));
    asked.release();
  };
  router_.get("/slow", Access::kEverybody, [&](const HttpRequest&) { return HttpReply{.later = later}; });
  const auto server = start({.max_connections = 2, .reserved_connections = 0, .stall_timeout = 0ms});
  std::list<ClientAt> clients;
  const auto ask_slow = [&] {
    clients.emplace_back(kHere, server, "GET /slow HTTP/1.1\r\nHost: h\r\n\r\n");
    return asked.try_acquire_for(60s);
  };
  EXPECT_TRUE(ask_slow());
  for (int closed = 0; closed < 2; ++closed) {
    EXPECT_TRUE(ask_slow());
    EXPECT_THAT(ClientAt::ask(kThere, server, kGetAndClose), EndsWith("hello\n"));
  }
  EXPECT_TRUE(ask_slow());
  EXPECT_THAT(ClientAt::ask(kThere, server, kGetAndClose), Not(HasSubstr("hello")));
  server_->stop();
  asio::post(io_, [&] {
    for (const HttpReply::Answer& answer : answers) answer({});
  });
  clients.clear();
  thread_.join();
}

TEST_F(HttpServerTest, StopEndsIdleConnectionsAndLeavesNothingToRun) {
  Client client(start());
  client.send(kGet);
  client.read_reply();
  server_->stop();
  thread_.join();
  EXPECT_EQ(client.read_to_end(), "");
  io_.restart();
  EXPECT_EQ(io_.poll(), 0u);
}

TEST_F(HttpServerTest, StopDoesNotWaitForTheRestOfARequest) {
  Client client(start({.head_timeout = 1h}));
  client.send(kGet + "GET /page HT");
  client.read_reply();
  server_->stop();
  thread_.join();
  EXPECT_EQ(client.read_to_end(), "");
}

TEST_F(HttpServerTest, StopFinishesTheReplyThatIsBeingWritten) {
  Client client(start(), kSmallBuffer);
  client.send(kGetLarge);
  client.read_first_byte();
  server_->stop();
  const std::string all = client.read_to_end();
  EXPECT_EQ(all.size() - (all.find("\r\n\r\n") + 4), kLarge);
}

TEST_F(HttpServerTest, AfterStopNothingListens) {
  const auto server = start();
  server_->stop();
  thread_.join();
  EXPECT_THROW(Client{server}, std::system_error);
}

TEST_F(HttpServerTest, StopBeforeTheFirstRunServesNobody) {
  server_.emplace(io_, router_);
  const auto server = server_->listen("127.0.0.1", 0);
  ASSERT_TRUE(server);
  server_->stop();
  io_.run();
  EXPECT_THROW(Client{*server}, std::system_error);
}

}  // namespace
}  // namespace locksley::daemon

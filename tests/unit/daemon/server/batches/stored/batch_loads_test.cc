// Looks at batches that are over and in the store alone, while the store's machine is silent.
#include <gmock/gmock.h>

#include <chrono>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "daemon/http/api/api.h"
#include "daemon/http/router.h"
#include "tests/support/memory_engine.h"
#include "tests/support/server_fixture.h"
#include "tests/support/store_fixture.h"

namespace locksley::daemon {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using testing::wait_until_true;

constexpr std::string_view kSilent = "-STORE the batch cannot be looked up at the moment: ";

// An earlier daemon, which leaves batches that are over in the store.
class EarlierServer final : public ServerFixture {
 public:
  EarlierServer(Store& store, const std::vector<std::string>& ids) {
    store_ = &store;
    start();
    for (const std::string& id : ids) {
      Client client(port_);
      EXPECT_EQ(client.ask("SUBMIT echo ID " + id + " JOBS first second"), "$" + std::to_string(id.size()));
      EXPECT_EQ(client.line(), id);
      EXPECT_THAT(client.ask("WAIT " + id), StartsWith("*"));
    }
    stop();
    store.stop();
    server_.reset();
  }

 private:
  void TestBody() override {}
};

class BatchLoadsTest : public ServerFixture {
 protected:
  BatchLoadsTest() {
    disk().is_on_network = true;
    opened_ = std::move(Store::open(bench_.options(), testing::silent_log()).value());
    leave_batches(*opened_);
    opened_.reset();  // two stores cannot have one disk
    opened_ = std::move(Store::open(bench_.options(), testing::silent_log()).value());
    store_ = opened_.get();
    start();
  }
  ~BatchLoadsTest() override {
    disk().index.let_pass(1'000);
    stop();
    opened_->stop();
    server_.reset();
  }

  testing::MemoryDisk& disk() { return dynamic_cast<testing::MemoryDisk&>(*bench_.disk); }
  static void leave_batches(Store& store) {
    const EarlierServer earlier(store, {"a", "b", "e1", "e2", "e3", "e4", "e5", "e6"});
  }

  testing::StoreBench bench_;
  std::unique_ptr<Store> opened_;
};

TEST_F(BatchLoadsTest, OthersAreServedWhileALookWaitsForTheServer) {
  disk().index.hold();
  Client asks(port_);
  asks.send("STATUS a\r\nPING\r\n");
  ASSERT_TRUE(disk().index.await_held(1));
  Client other(port_);
  EXPECT_EQ(other.ask("PING"), "+PONG");
  EXPECT_EQ(other.ask("SUBMIT echo ID c JOBS third"), "$1");
  EXPECT_EQ(other.line(), "c");
  ASSERT_TRUE(disk().index.await_held(1)) << "the look still waits";
  disk().index.let_pass(1);
  EXPECT_EQ(asks.line(), "*38");
  EXPECT_EQ(asks.bulk(), "id");
  EXPECT_EQ(asks.bulk(), "a");
}

TEST_F(BatchLoadsTest, RepliesComeInTheOrderOfTheCommands) {
  disk().index.hold();
  Client client(port_);
  client.send("EXPLAIN a\r\nPING\r\nMULTI\r\nSLOTS b 1\r\nPING\r\nFORGET b\r\nEXEC\r\n");
  disk().index.let_pass(2);
  EXPECT_EQ(client.line(), "*16");
  std::string line;
  while (line != "+PONG") line = client.line();
  EXPECT_EQ(client.line(), "+OK");
  for (int i = 0; i < 3; ++i) EXPECT_EQ(client.line(), "+QUEUED");
  EXPECT_EQ(client.line(), "*3");
  EXPECT_EQ(client.line(), "+OK");
  EXPECT_EQ(client.line(), "+PONG");
  EXPECT_EQ(client.line(), ":1");
}

TEST_F(BatchLoadsTest, ManyThatLookAtOneBatchShareTheLoad) {
  disk().index.hold();
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(std::make_unique<Client>(port_));
    clients.back()->send("STATUS a\r\n");
  }
  ASSERT_TRUE(disk().index.await_held(1));
  disk().index.let_pass(1);
  for (const auto& client : clients) EXPECT_EQ(client->line(), "*38");
  EXPECT_EQ(disk().index.readings(), 1U);
}

TEST_F(BatchLoadsTest, OneThatIsForgottenMeanwhileIsNotFound) {
  disk().index.hold();
  Client asks(port_);
  asks.send("STATUS a\r\n");
  ASSERT_TRUE(disk().index.await_held(1));
  on_io_thread([&] {
    kIoThread.assert_held();
    server_->batches().registry().forget_retained(1);
    return 0;
  });
  disk().index.let_pass(1);
  EXPECT_THAT(asks.line(), StartsWith("-NOBATCH "));
}

TEST_F(BatchLoadsTest, WithoutAReplyTheLookFails) {
  disk().has_no_reply = true;
  Client client(port_);
  const Instant began = now();
  EXPECT_THAT(client.ask("STATUS a"), StartsWith(kSilent));
  EXPECT_EQ(disk().without_reply, 1U);
  EXPECT_THAT(client.ask("FORGET b"), StartsWith(kSilent));
  EXPECT_LE(disk().without_reply, 1U + static_cast<std::uint64_t>((now() - began) / std::chrono::seconds(1)))
      << "for a second nothing more is asked";
}

TEST_F(BatchLoadsTest, TheThreadOfAllClientsDoesNotConnectAndTheReaderDoes) {
  disk().has_no_connection = true;
  Client client(port_);
  EXPECT_THAT(client.ask("LIST"), StartsWith("-STORE a batch cannot be read: "));
  EXPECT_THAT(client.ask("SUBMIT echo AFTER a JOBS x"), StartsWith("-STORE "));
  EXPECT_EQ(disk().without_connection, 2U) << "each asks, since none has waited";
  EXPECT_TRUE(wait_until_true([&] { return disk().server.questions() != 0; }))
      << "the reader's thread asks whether the server replies";
  EXPECT_EQ(client.ask("STATUS a"), "*38");
}

// The server replies, and takes 120 ms for a batch.
TEST_F(BatchLoadsTest, AllLoadsOfOneCommandWaitForHalfASecondTogether) {
  constexpr auto kEach = std::chrono::milliseconds(120);
  constexpr auto kSubmit =
      "SUBMIT echo AFTER a AFTER b AFTER e1 AFTER e2 AFTER e3 AFTER e4 AFTER e5 AFTER e6 JOBS x";
  disk().index.hold();
  const std::jthread server([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      std::this_thread::sleep_for(kEach);
      disk().index.let_pass(disk().index.await_held(1, kEach) ? 1 : 0);
    }
  });
  Client client(port_);
  EXPECT_THAT(client.ask(kSubmit), StartsWith("-STORE "));
  EXPECT_LE(disk().index.readings(), Store::kLoadPatience / kEach + 1);
  const auto asks_again = [&] {
    // As the loop of the daemon does: this one does not count.
    on_io_thread([&] { return server_->state().stats().stretches.polls.add(1), 0; });
    return client.ask(kSubmit).starts_with("$");
  };
  EXPECT_TRUE(wait_until_true(asks_again)) << "what was read is in memory when the client tries again";
}

TEST_F(BatchLoadsTest, TheHttpApiWaitsInTheSameWay) {
  const Health health(pool_, lane_);
  Api api(server_->state(), health);
  Router router;
  api.add_to(router);
  std::vector<HttpReply> replies;
  const auto get = [&](std::string_view path, std::string_view query = {}) {
    const HttpRequest request{.method = "GET",
                              .path = path,
                              .query = query,
                              .host = "localhost",
                              .peer = asio::ip::make_address("127.0.0.1")};
    const auto answer = [&](const HttpReply& reply) { replies.push_back(reply); };
    const HttpReply reply = router.route(request);
    reply.later ? reply.later(answer) : answer(reply);
    return replies.size();
  };
  const auto count = [&] { return on_io_thread([&] { return replies.size(); }); };
  disk().index.hold();
  EXPECT_EQ(on_io_thread([&] { return get("/api/batches/a"); }), 0U);
  EXPECT_EQ(on_io_thread([&] { return get("/api/batches/b", "tenant=default"); }), 0U);
  disk().index.let_pass(2);
  EXPECT_TRUE(wait_until_true([&] { return count() == 2; }));
  for (const HttpReply& reply : replies) {
    EXPECT_EQ(reply.status, HttpStatus::kOk);
    EXPECT_THAT(reply.body, HasSubstr("\"ok\":2"));
  }
  EXPECT_EQ(on_io_thread([&] { return get("/api/batches/a"); }), 3U) << "it is in memory now";
}

}  // namespace
}  // namespace locksley::daemon

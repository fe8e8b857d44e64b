// Where messages come between the replies of a connection that the store holds up.
#include <memory>
#include <string>

#include "proto/command_table.h"
#include "tests/support/server_fixture.h"
#include "tests/support/store_fixture.h"

namespace locksley::daemon {
namespace {

using proto::CommandId;
using testing::wait_until_true;

class MessageOrderTest : public ServerFixture {
 protected:
  MessageOrderTest() {
    opened_ = std::move(Store::open(bench_.options(), testing::silent_log()).value());
    store_ = opened_.get();
    start();
  }
  ~MessageOrderTest() override {
    bench_.disk->release();
    stop();
    opened_->stop();
    server_.reset();
  }

  // The first command waits for a sync, which the disk holds until the last one is executed.
  void send_during_sync(Client& client, const std::string& commands, CommandId last) {
    const auto executed = [&] {
      return on_io_thread(
          [&] { return server_->state().stats().commands[static_cast<std::size_t>(last)].get(); });
    };
    const auto before = executed();
    bench_.disk->hold_syncs();
    client.send(commands);
    EXPECT_TRUE(wait_until_true([&] { return executed() == before + 1; }));
    EXPECT_TRUE(bench_.disk->await_held());
    bench_.disk->release();
  }
  static void say_hello(Client& client, const std::string& protocol) {
    client.send("HELLO " + protocol + "\r\n");
    skip_hello(client);
  }
  // The list of modules is its last line.
  static void skip_hello(Client& client) {
    for (std::string line = client.line(); line != "*0" && line != "<closed>";) line = client.line();
  }
  // `sign`: of a push, by the protocol of the connection. The event that a message tells of is not
  // looked at.
  static void expect_push(Client& client, const std::string& sign, const std::string& kind,
                          const std::string& channel) {
    EXPECT_EQ(client.line(), sign + "3");
    EXPECT_EQ(client.bulk(), kind);
    EXPECT_EQ(client.bulk(), channel);
    if (kind == "message") {
      client.bulk();
    } else {
      EXPECT_EQ(client.line(), ":1");
    }
  }

  testing::StoreBench bench_;
  std::unique_ptr<Store> opened_;
};

TEST_F(MessageOrderTest, NoMessagePassesTheConfirmationOfItsSubscription) {
  for (const std::string sign : {"*", ">"}) {
    Client client(port_);
    say_hello(client, sign == "*" ? "2" : "3");
    const std::string id = sign == "*" ? "resp2" : "resp3";
    send_during_sync(client, "SUBMIT echo ID " + id + " JOBS a\r\nSUBSCRIBE batch:" + id + "\r\n",
                     CommandId::kSubscribe);
    EXPECT_EQ(client.bulk(), id);
    expect_push(client, sign, "subscribe", "batch:" + id);
    expect_push(client, sign, "message", "batch:" + id);
  }
}

TEST_F(MessageOrderTest, NoMessagePassesTheConfirmationOfAPattern) {
  Client client(port_);
  send_during_sync(client, "SUBMIT echo ID b JOBS a\r\nPSUBSCRIBE batch:*\r\n", CommandId::kPsubscribe);
  EXPECT_EQ(client.bulk(), "b");
  expect_push(client, "*", "psubscribe", "batch:*");
  EXPECT_EQ(client.line(), "*4");
  EXPECT_EQ(client.bulk(), "pmessage");
}

TEST_F(MessageOrderTest, AConfirmedSubscriberByResp3HasItsMessagesBeforeAReplyThatWaits) {
  Client client(port_);
  say_hello(client, "3");
  client.send("SUBSCRIBE batches\r\n");
  expect_push(client, ">", "subscribe", "batches");
  send_during_sync(client, "SUBMIT echo ID b JOBS a\r\n", CommandId::kSubmit);
  expect_push(client, ">", "message", "batches");
}

TEST_F(MessageOrderTest, AMessageByResp2PassesNoReplyAlsoAfterAChangeOfTheProtocol) {
  Client client(port_);
  say_hello(client, "3");
  client.send("SUBSCRIBE batches\r\n");
  expect_push(client, ">", "subscribe", "batches");
  send_during_sync(client, "SUBMIT echo ID b JOBS a\r\nHELLO 2\r\n", CommandId::kHello);
  EXPECT_EQ(client.bulk(), "b");
  EXPECT_EQ(client.line(), "*14");
  skip_hello(client);
  expect_push(client, "*", "message", "batches");
}

}  // namespace
}  // namespace locksley::daemon

// A connection whose reply the store's writer sends while the I/O thread does something else.
#include <gmock/gmock.h>

#include <functional>
#include <future>
#include <memory>
#include <string>

#include "tests/support/server_fixture.h"
#include "tests/support/store_fixture.h"

namespace locksley::daemon {
namespace {

using ::testing::StartsWith;
using testing::wait_until_true;

class EarlyReplyTest : public ServerFixture {
 protected:
  EarlyReplyTest() {
    opened_ = std::move(Store::open(bench_.options(), testing::silent_log()).value());
    store_ = opened_.get();
    start();
  }
  ~EarlyReplyTest() override {
    bench_.disk->release();
    stop();
    opened_->stop();
    server_.reset();
  }

  bool is_reply_held() {
    return on_io_thread([&] {
      kIoThread.assert_held();
      return !server_->state().held_replies().empty();
    });
  }
  // The client sends a command, whose reply waits for a sync.
  void hold_reply(Client& client, const std::string& command) {
    bench_.disk->hold_syncs();
    client.send(command + "\r\n");
    EXPECT_TRUE(wait_until_true([&] { return is_reply_held(); }));
    EXPECT_TRUE(bench_.disk->await_held());
  }
  // Calls `look` while the I/O thread does nothing.
  void while_it_is_busy(const std::function<void()>& look) {
    const auto begun = std::make_shared<std::promise<void>>();
    std::promise<void> done;
    asio::post(io_, [begun, is_done = done.get_future().share()] {
      begun->set_value();
      is_done.wait();
    });
    begun->get_future().wait();
    look();
    done.set_value();
  }

  testing::StoreBench bench_;
  std::unique_ptr<Store> opened_;
};

TEST_F(EarlyReplyTest, AReplyNeedsNoIoThreadOnceTheDiskHasTheBatch) {
  Client client(port_);
  hold_reply(client, "SUBMIT echo ID b JOBS first");
  while_it_is_busy([&] {
    bench_.disk->release();
    EXPECT_EQ(client.bulk(), "b");
  });
  EXPECT_EQ(client.ask("PING"), "+PONG");
  EXPECT_FALSE(is_reply_held());
}

TEST_F(EarlyReplyTest, ARefusedBatchIsNotAcknowledged) {
  Client client(port_);
  bench_.disk->fail_next_sync();
  EXPECT_THAT(client.ask("SUBMIT echo ID b JOBS first"), StartsWith("-STORE "));
}

TEST_F(EarlyReplyTest, RepliesAfterItComeAfterIt) {
  Client client(port_);
  hold_reply(client, "SUBMIT echo ID b JOBS first");
  client.send("PING\r\nSUBMIT echo ID c JOBS first\r\nPING\r\n");
  bench_.disk->release();
  EXPECT_EQ(client.bulk(), "b");
  EXPECT_EQ(client.line(), "+PONG");
  EXPECT_EQ(client.bulk(), "c");
  EXPECT_EQ(client.line(), "+PONG");
}

TEST_F(EarlyReplyTest, AReplyDoesNotReachTheNextConnectionWithTheSameDescriptor) {
  Client killed(port_);
  EXPECT_EQ(killed.ask("CLIENT ID"), ":1");
  Client other(port_);
  hold_reply(killed, "SUBMIT echo ID b JOBS first");
  EXPECT_EQ(other.ask("CLIENT KILL ID 1"), ":1");
  EXPECT_TRUE(killed.is_closed());
  Client next(port_);
  EXPECT_EQ(next.ask("PING"), "+PONG");
  bench_.disk->release();
  EXPECT_EQ(other.ask("SUBMIT echo ID c JOBS first"), "$1");
  EXPECT_EQ(next.ask("PING"), "+PONG");
}

}  // namespace
}  // namespace locksley::daemon

// RESULTS of a batch whose rows the disk does not have yet.
#include <gmock/gmock.h>

#include <memory>
#include <string>

#include "tests/support/server_fixture.h"
#include "tests/support/store_fixture.h"

namespace locksley::daemon {
namespace {

using testing::wait_until_true;

class StoredResultsTest : public ServerFixture {
 protected:
  StoredResultsTest() {
    opened_ = std::move(Store::open(bench_.options(), testing::silent_log()).value());
    store_ = opened_.get();
  }
  ~StoredResultsTest() override {
    bench_.disk->release();
    stop();
    opened_->stop();
    server_.reset();
  }

  // A batch of two jobs that end once `release_` is true.
  static void submit(Client& client) {
    EXPECT_EQ(client.ask("SUBMIT hold ID b JOBS first second"), "$1");
    EXPECT_EQ(client.line(), "b");
  }
  // One that has ended; the disk does not take its results, until it is released.
  void end_on_a_slow_disk(Client& client) {
    submit(client);
    bench_.disk->hold_syncs();
    release_ = true;
    EXPECT_TRUE(wait_until_true([&] { return is_over(); }));
    EXPECT_TRUE(bench_.disk->await_held());
  }
  bool is_over() {
    return on_io_thread([&] {
      kIoThread.assert_held();
      return server_->batches().registry().by_sequence(1)->is_over();
    });
  }
  bool is_reply_held() {
    return on_io_thread([&] {
      kIoThread.assert_held();
      return !server_->state().held_replies().empty();
    });
  }
  // Of a reply whose first line is `head`.
  static std::string cursor_of(Client& client, std::string head) {
    EXPECT_EQ(head, "*2");
    return client.bulk();
  }

  testing::StoreBench bench_;
  std::unique_ptr<Store> opened_;
};

TEST_F(StoredResultsTest, ACursorComesOnceTheRowsBelowItAreOnTheDisk) {
  start();
  Client client(port_);
  end_on_a_slow_disk(client);
  client.send("RESULTS b COUNT 1\r\n");
  EXPECT_TRUE(wait_until_true([&] { return is_reply_held(); }));
  bench_.disk->release();
  EXPECT_EQ(cursor_of(client, client.line()), "2");
}

TEST_F(StoredResultsTest, TheLastPageWaitsForNothing) {
  start();
  Client client(port_);
  end_on_a_slow_disk(client);
  EXPECT_EQ(cursor_of(client, client.ask("RESULTS b")), "0");
}

TEST_F(StoredResultsTest, WhileTheDiskFailsRowsComeAtOnce) {
  start();
  Client client(port_);
  submit(client);
  bench_.disk->fail_syncs();
  release_ = true;
  EXPECT_TRUE(wait_until_true([&] { return !opened_->error().empty() && is_over(); }));
  EXPECT_EQ(cursor_of(client, client.ask("RESULTS b COUNT 1")), "2");
}

}  // namespace
}  // namespace locksley::daemon

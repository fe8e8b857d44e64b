// What was read for a command counts to its connection's memory before the command copies it into a
// reply.
#include <asio/post.hpp>
#include <atomic>
#include <cstddef>
#include <memory>
#include <string>

#include "core/batch/batch_results.h"
#include "tests/support/server_fixture.h"
#include "tests/support/store_fixture.h"

namespace locksley::daemon {
namespace {

using testing::wait_until_true;

class ReadMemoryTest : public ServerFixture {
 protected:
  static constexpr std::size_t kOutput = 100'000;

  ReadMemoryTest() {
    opened_ = std::move(Store::open(bench_.options(), testing::silent_log()).value());
    store_ = opened_.get();
    // So that the store frees the result as soon as the disk has it.
    start([](config::Config& config) { config.limits.max_result_bytes.count = kOutput / 2; });
  }
  ~ReadMemoryTest() override {
    is_over_ = true;
    stop();
    opened_->stop();
    server_.reset();
  }

  // A batch of one job, whose output is in the store alone.
  void store_batch(Client& client) {
    const std::string payload(kOutput, 'x');
    client.send("*6\r\n$6\r\nSUBMIT\r\n$4\r\necho\r\n$2\r\nID\r\n$1\r\nb\r\n$4\r\nJOBS\r\n$" +
                std::to_string(kOutput) + "\r\n" + payload + "\r\n");
    EXPECT_EQ(client.bulk(), "b");
    EXPECT_TRUE(wait_until_true([&] {
      return on_io_thread([&] {
        kIoThread.assert_held();
        const auto record = server_->batches().registry().by_sequence(1);
        return record->is_over() && !record->results().in_memory(0, 1);
      });
    }));
  }
  std::uint64_t client_bytes() LOCKSLEY_REQUIRES(kIoThread) {
    return server_->batches().registry().tenants().account_of_all().used(Resource::kClientBytes);
  }
  // Looks between all functions of the I/O thread: so also after the end of a read, and before the
  // command goes on.
  void watch() {
    kIoThread.assert_held();
    if (server_->state().stats().blocked.get() == 1 && client_bytes() >= kOutput) was_counted_ = true;
    if (!is_over_) asio::post(io_, [this] { watch(); });
  }
  void send_watched(const std::string& command) {
    Client client(port_);
    store_batch(client);
    asio::post(io_, [this] { watch(); });
    client.send(command + "\r\nPING\r\n");
    for (std::string line; line != "+PONG" && !line.ends_with("<closed>");) line = client.line();
  }
  void expect_counted_until_sent(const std::string& command) {
    send_watched(command);
    EXPECT_TRUE(was_counted_);
    EXPECT_TRUE(wait_until_true([&] { return on_io_thread([&] { return is_little_left(); }); }));
  }
  bool is_little_left() {
    kIoThread.assert_held();
    return client_bytes() < kOutput;
  }

  testing::StoreBench bench_;
  std::unique_ptr<Store> opened_;
  std::atomic<bool> is_over_{false};
  std::atomic<bool> was_counted_{false};
};

TEST_F(ReadMemoryTest, JobCountsTheResultThatWasFound) { expect_counted_until_sent("JOB b 0"); }

TEST_F(ReadMemoryTest, ResultsCountsThePageThatWasRead) { expect_counted_until_sent("RESULTS b"); }

TEST_F(ReadMemoryTest, LogDoesNotHoldTheOutput) {
  send_watched("LOG b 0");
  EXPECT_FALSE(was_counted_);
}

}  // namespace
}  // namespace locksley::daemon

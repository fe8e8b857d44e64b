// What a SUBMIT that waits for slices counts to the memory of its connection.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/loop/io_thread.h"
#include "daemon/base/time.h"
#include "daemon/server/state/server_state.h"
#include "tests/support/server_fixture.h"

namespace locksley::daemon {
namespace {

using testing::SizeIs;

class SubmitMemoryTest : public ServerFixture {
 protected:
  static constexpr std::size_t kPayload = std::size_t{2} << 20;
  static constexpr std::size_t kWaits = 9;

  ~SubmitMemoryTest() override {
    is_over_ = true;
    stop();
  }

  static std::string bulk(const std::string& text) {
    return "$" + std::to_string(text.size()) + "\r\n" + text + "\r\n";
  }
  // A SUBMIT that waits for so many batches that they are looked up in slices. It has no id: to
  // compute the digest of the payloads would take slices, too.
  static std::string submit(const std::vector<std::string>& source) {
    std::string command =
        "*" + std::to_string(2 + 2 * kWaits + source.size()) + "\r\n" + bulk("SUBMIT") + bulk("echo");
    for (std::size_t i = 0; i < kWaits; ++i) command += bulk("AFTER") + bulk("b" + std::to_string(i));
    for (const std::string& word : source) command += bulk(word);
    return command;
  }
  // From now on another user's long work waits at all times, so that each command in slices has to
  // wait after its first step. It looks meanwhile at what the connections hold.
  void work_at_all_times() {
    on_io_thread([this] {
      kIoThread.assert_held();
      server_->state().slices().add([this](Instant) {
        kIoThread.assert_held();
        if (server_->batches().registry().by_sequence(kWaits + 1) == nullptr) {
          least_ = std::min(least_.load(), client_bytes());
          most_ = std::max(most_.load(), client_bytes());
        }
        return is_over_.load();
      });
      return true;
    });
  }
  // Sends the last bytes once the daemon has read all others: the connection is then not inside a
  // slice, and the long work that waits takes the time of the command.
  void send_in_two(Client& client, std::string_view command) {
    const auto received = [this] {
      return on_io_thread([this] { return server_->state().stats().received_bytes.get(); });
    };
    const std::size_t first = command.size() - 1;
    const std::uint64_t all = received() + first;
    client.send(command.substr(0, first));
    const Instant deadline = now() + std::chrono::seconds(60);
    while (received() != all) ASSERT_LT(now(), deadline) << "not read";
    for (int rounds = 0; rounds < 10; ++rounds) received();
    client.send(command.substr(first));
  }
  std::uint64_t client_bytes() LOCKSLEY_REQUIRES(kIoThread) {
    return server_->batches().registry().tenants().account_of_all().used(Resource::kClientBytes);
  }
  static void submit_others(Client& client) {
    for (std::size_t i = 0; i < kWaits; ++i) {
      client.send("SUBMIT echo ID b" + std::to_string(i) + " DELAY 600000 JOBS x\r\n");
      ASSERT_EQ(client.bulk(), "b" + std::to_string(i));
    }
  }

  std::atomic<bool> is_over_{false};
  std::atomic<std::uint64_t> least_{UINT64_MAX};
  std::atomic<std::uint64_t> most_{0};
};

TEST_F(SubmitMemoryTest, ACommandCountsToTheInputAloneAndIsNotDroppedForTheMemoryOfReplies) {
  start([](config::Config& config) { config.limits.client_memory.count = kPayload / 2; });
  Client client(port_);
  submit_others(client);
  work_at_all_times();
  send_in_two(client, submit({"JOBS", std::string(kPayload, 'x')}));
  EXPECT_THAT(client.bulk(), SizeIs(13)) << "an id";
  EXPECT_LT(most_, kPayload / 2);
}

TEST_F(SubmitMemoryTest, ACopiedPatternCountsUntilItsBatchIsAccepted) {
  constexpr std::size_t kPattern = 32 * 1024;  // copied at once
  start();
  Client client(port_);
  submit_others(client);
  work_at_all_times();
  send_in_two(client, submit({"RANGE", "0", "9", std::string(kPattern, 'x')}));
  EXPECT_THAT(client.bulk(), SizeIs(13)) << "an id";
  EXPECT_GE(most_, kPattern);
}

TEST_F(SubmitMemoryTest, ACommandOfAnExecCountsUntilItIsExecuted) {
  start();
  Client client(port_);
  submit_others(client);
  EXPECT_EQ(client.ask("MULTI"), "+OK");
  client.send(submit({"JOBS", std::string(kPayload, 'x')}));
  EXPECT_EQ(client.line(), "+QUEUED");
  work_at_all_times();
  EXPECT_EQ(client.ask("EXEC"), "*1");
  EXPECT_THAT(client.bulk(), SizeIs(13)) << "an id";
  EXPECT_GE(least_, kPayload);
}

}  // namespace
}  // namespace locksley::daemon

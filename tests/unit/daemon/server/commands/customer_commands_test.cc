// Commands about customers, as a client sees them.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <thread>

#include "daemon/base/loop/io_thread.h"
#include "tests/support/server_fixture.h"

namespace locksley::daemon {
namespace {

class CustomerCommandsTest : public ServerFixture {
 protected:
  void wait_until_all_are_over() {
    const auto active = [this] {
      kIoThread.assert_held();
      return server_->batches().active();
    };
    while (on_io_thread(active) != 0) std::this_thread::yield();
  }
};

TEST_F(CustomerCommandsTest, SettingsOfACustomerEvictFinishedBatchesForTheirRoom) {
  constexpr std::uint64_t kLimit = 256 * 1024;
  start([](config::Config& config) { config.limits.max_record_bytes = config::kibibytes(kLimit / 1024); });
  Client client(port_);
  const auto used = [&client] {
    client.send("INFO account\r\n");
    const std::string info = client.bulk();
    const std::string key = "account_record_bytes:used=";
    return std::stoull(info.substr(info.find(key) + key.size()));
  };
  for (int i = 0; i < 400; ++i) {
    client.send("SUBMIT echo ID b" + std::to_string(i) + " JOBS a\r\n");
    ASSERT_EQ(client.bulk(), "b" + std::to_string(i));
    if (i % 50 == 49) wait_until_all_are_over();  // else there is nothing to evict for the next ones
  }
  ASSERT_GT(used(), kLimit / 2) << "finished batches have taken the room";
  int set = 0;
  while (set < 1000 && client.ask("CUSTOMER SET c" + std::to_string(set) + " WEIGHT 2") == "+OK") ++set;
  EXPECT_GT(set, 100);
  EXPECT_LE(used(), kLimit);
}

}  // namespace
}  // namespace locksley::daemon

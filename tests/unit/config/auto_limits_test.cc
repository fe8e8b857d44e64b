#include "config/auto_limits.h"

#include <gtest/gtest.h>

namespace locksley::config {
namespace {

constexpr Machine kMachine{.memory = gibibytes(16), .disk = gibibytes(100)};

TEST(AutoLimitsTest, FollowFromTheMachine) {
  Config config;
  derive_limits(config, kMachine);
  EXPECT_EQ(config.limits.max_queued_bytes.count, gibibytes(4).count);
  EXPECT_EQ(config.limits.max_result_bytes.count, gibibytes(2).count);
  EXPECT_EQ(config.limits.max_record_bytes.count, gibibytes(2).count);
  EXPECT_EQ(config.limits.client_memory.count, gibibytes(2).count);
  EXPECT_EQ(config.store.max_bytes.count, gibibytes(75).count);
  EXPECT_TRUE(config.limits.max_queued_bytes.is_auto);
}

TEST(AutoLimitsTest, NetworkThreadsComeWithTheProcessors) {
  const auto threads = [](std::uint32_t processors) {
    Config config;
    derive_limits(config, {.memory = gibibytes(1), .disk = Bytes{0}, .processors = processors});
    return config.listen.threads.count;
  };
  EXPECT_EQ(threads(1), 1U);
  EXPECT_EQ(threads(4), 1U);
  EXPECT_EQ(threads(5), 2U);
  EXPECT_EQ(threads(16), 5U);
  EXPECT_EQ(threads(64), 5U);
  EXPECT_EQ(threads(256), 5U);
}

TEST(AutoLimitsTest, AUserHasHalf) {
  Config config;
  config.users["u"].password_hash = "x";
  config.limits.max_clients = 11;
  config.limits.max_queued_bytes = gibibytes(1);
  derive_limits(config, kMachine);
  const User& user = config.users["u"];
  EXPECT_EQ(user.max_clients.count, 6U);
  EXPECT_EQ(user.max_queued_bytes.count, mebibytes(512).count);
  EXPECT_EQ(user.max_stored_bytes.count, gibibytes(75).count / 2);
  EXPECT_EQ(user.max_batches, 0U);
}

// Else a change of a limit would not reach the users, or each change of any would visit all of
// them.
TEST(AutoLimitsTest, WhichLimitsOfAllConcernUsers) {
  const auto derived = [](const auto& change) {
    Config config;
    config.users["u"].password_hash = "x";
    change(config);
    derive_limits(config, kMachine);
    return config;
  };
  const Config before = derived([](Config&) {});
  EXPECT_TRUE(has_same_limits_of_all(
      before, derived([](Config& config) { config.limits.open_timeout = std::chrono::seconds(1); })));
  const auto expect_other = [&](const auto& change) {
    EXPECT_FALSE(has_same_limits_of_all(before, derived(change)));
  };
  expect_other([](Config& config) { config.limits.max_queued_jobs = 5; });
  expect_other([](Config& config) { config.limits.max_queued_bytes = mebibytes(300); });
  expect_other([](Config& config) { config.limits.max_payload = mebibytes(3); });
  expect_other([](Config& config) { config.limits.max_result_bytes = mebibytes(3); });
  expect_other([](Config& config) { config.limits.max_record_bytes = mebibytes(3); });
  expect_other([](Config& config) { config.limits.client_memory = mebibytes(3); });
  expect_other([](Config& config) { config.limits.max_clients = 5; });
  expect_other([](Config& config) { config.store.max_bytes = Limit{mebibytes(3).count}; });
}

TEST(AutoLimitsTest, ValuesStay) {
  Config config;
  config.limits.max_result_bytes = mebibytes(3);
  config.users["u"].max_result_bytes = Limit{};
  config.store.max_bytes = Limit{};
  config.listen.threads = Limit{3};
  derive_limits(config, kMachine);
  EXPECT_EQ(config.limits.max_result_bytes, Limit{mebibytes(3).count});
  EXPECT_EQ(config.listen.threads, Limit{3});
  EXPECT_EQ(config.users["u"].max_result_bytes, Limit{});
  EXPECT_EQ(config.users["u"].max_stored_bytes, auto_limit()) << "half of no limit is none";
}

TEST(AutoLimitsTest, TheLargestPayloadFitsOnASmallMachine) {
  Config config;
  config.users["u"].password_hash = "x";
  derive_limits(config, {.memory = mebibytes(64), .disk = Bytes{0}});
  EXPECT_EQ(config.limits.max_queued_bytes.count, config.limits.max_payload.count);
  EXPECT_EQ(config.users["u"].max_queued_bytes.count, config.limits.max_payload.count);
  EXPECT_EQ(config.store.max_bytes.count, 0U);
}

}  // namespace
}  // namespace locksley::config

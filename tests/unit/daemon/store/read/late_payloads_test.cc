// Payloads that take long on their way from the database, or do not come.
#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>
#include <string>

#include "tests/unit/daemon/store/read/payload_fetcher_fixture.h"

namespace locksley::daemon {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

using LatePayloadsTest = PayloadFetcherFixture;

TEST_F(LatePayloadsTest, APayloadThatIsSlowOnItsWayComesInTheEnd) {
  put(1, 0, {"x"});
  begin({.patience = milliseconds(0), .threads = 1, .first_reading = milliseconds(5)});
  const auto source = payloads(1);
  disk.server.take(milliseconds(35));  // more than 5, 10 and 20 ms
  ASSERT_TRUE(testing::wait_until_true([&] { return !fetch(*source, 0).empty(); }));
  EXPECT_TRUE(reachability->is_reachable());
}

TEST_F(LatePayloadsTest, APayloadThatDoesNotComeWithinTheLongestTimeIsTheErrorOfItsJob) {
  put(1, 0, {"x"});
  begin({.patience = milliseconds(0),
         .threads = 1,
         .first_reading = milliseconds(5),
         .longest_reading = milliseconds(20)});
  const auto source = payloads(1);
  disk.server.take(milliseconds(35));
  std::string error;
  ASSERT_TRUE(testing::wait_until_true([&] {
    try {
      (void)fetch(*source, 0);
    } catch (const std::runtime_error& thrown) {
      error = thrown.what();
    }
    return !error.empty();
  }));
  EXPECT_EQ(error, "the database has not sent it within 0.02 s");
  EXPECT_TRUE(arrivals.await(1)) << "so that the batch goes on";
}

TEST_F(LatePayloadsTest, ADatabaseThatIsAwayFailsNoJob) {
  put(1, 0, {"x"});
  begin({.patience = milliseconds(0),
         .threads = 1,
         .first_reading = milliseconds(1),
         .longest_reading = milliseconds(1)});
  const auto source = payloads(1);
  disk.server.fail(EngineError::Kind::kAway);
  disk.server.take(milliseconds(35));
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(fetch(*source, 0), Fetched());
    ASSERT_TRUE(testing::wait_until_true([&] { return !reachability->is_reachable(); }));
  }
}

TEST_F(LatePayloadsTest, ToStopDoesNotWaitForAReading) {
  put(1, 0, {"x"});
  begin({.patience = milliseconds(0), .threads = 1, .first_reading = hours(1)});
  const auto source = payloads(1);
  disk.server.hold();
  EXPECT_EQ(fetch(*source, 0), Fetched());
  ASSERT_TRUE(disk.server.await_held(1));
  fetcher->stop();
  EXPECT_EQ(disk.server.readings(), 0U) << "it was cut off";
  EXPECT_EQ(fetch(*source, 0), Fetched());
}

}  // namespace
}  // namespace locksley::daemon

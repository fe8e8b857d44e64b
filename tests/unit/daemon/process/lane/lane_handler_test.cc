// Whether a job that no worker has read goes back to its batch.
#include "daemon/process/lane/lane_handler.h"

#include <gtest/gtest.h>

#include <asio/io_context.hpp>

#include "core/lane/lane.h"
#include "core/sync/thread_role.h"

namespace locksley::daemon {
namespace {

using namespace std::chrono_literals;

class SparedJobsTest : public ::testing::Test {
 protected:
  asio::io_context io_;
  Lane lane_{"lane", {}};
  LaneHandler handler_{lane_, io_.get_executor(), 0};
};

TEST_F(SparedJobsTest, OfAProgramThatHasNeverWorkedNoneIs) {
  const ThreadRoleScope process_thread(kProcessThread);
  EXPECT_FALSE(handler_.spares_job(1s));
}

TEST_F(SparedJobsTest, OnceItHasWorkedTheyAreForATime) {
  const ThreadRoleScope process_thread(kProcessThread);
  handler_.worker_works();
  EXPECT_TRUE(handler_.spares_job(10s));
  EXPECT_TRUE(handler_.spares_job(10s + LaneHandler::kSpareTime - 1ns));
  EXPECT_FALSE(handler_.spares_job(10s + LaneHandler::kSpareTime));
  EXPECT_FALSE(handler_.spares_job(10s + 2 * LaneHandler::kSpareTime)) << "it has failed all the time";

  // The workers that run go on working; hours later, a new one fails.
  EXPECT_TRUE(handler_.spares_job(24h));
  EXPECT_FALSE(handler_.spares_job(24h + LaneHandler::kSpareTime));

  // Repaired; then it breaks again.
  handler_.worker_works();
  EXPECT_TRUE(handler_.spares_job(25h));
  EXPECT_FALSE(handler_.spares_job(25h + LaneHandler::kSpareTime));
}

TEST_F(SparedJobsTest, AnotherHandlerOfTheSameGateHasYetToWork) {
  const ThreadRoleScope process_thread(kProcessThread);
  handler_.worker_works();
  handler_.rename("another");
  EXPECT_FALSE(handler_.spares_job(1s));
}

}  // namespace
}  // namespace locksley::daemon

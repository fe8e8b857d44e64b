// When the daemon is healthy, and when it is ready.
#include "daemon/http/pages/health.h"

#include <gmock/gmock.h>

#include <asio/io_context.hpp>
#include <atomic>

#include "daemon/http/pages/operator_pages.h"
#include "tests/support/pool_fixture.h"

namespace locksley::daemon {
namespace {

using namespace std::chrono_literals;

constexpr LaneProgress kStalled{
    .claimable = true, .executors = 1, .slots = 2, .claims = 7, .last_progress = 5s};

TEST(StallDetectorTest, FindsWorkThatFreeExecutorsLeaveLyingForLongerThanTheBound) {
  StallDetector detector(60s);
  EXPECT_FALSE(detector.observe(kStalled, 1000s))
      << "the first look begins the wait, however old the last progress is";
  EXPECT_FALSE(detector.observe(kStalled, 1060s));
  EXPECT_EQ(detector.observe(kStalled, 1061s), 61s);
  EXPECT_EQ(detector.observe(kStalled, 1100s), 100s);
}

TEST(StallDetectorTest, AnyClaimOrEndOfWorkStartsTheWaitAgain) {
  StallDetector detector(60s);
  LaneProgress progress = kStalled;
  EXPECT_FALSE(detector.observe(progress, 1000s));
  ++progress.claims;
  EXPECT_FALSE(detector.observe(progress, 1100s));
  progress.last_progress += 1s;
  EXPECT_FALSE(detector.observe(progress, 1200s));
  EXPECT_TRUE(detector.observe(progress, 1300s));
}

TEST(StallDetectorTest, LongJobsOnAllExecutorsAreNoStall) {
  StallDetector detector(60s);
  LaneProgress busy = kStalled;
  busy.executors = busy.slots;
  for (Nanoseconds now = 1000s; now < 9000s; now += 30s) EXPECT_FALSE(detector.observe(busy, now));
}

TEST(StallDetectorTest, NothingToClaimIsNoStallAndEndsOne) {
  StallDetector detector(60s);
  LaneProgress idle = kStalled;
  idle.claimable = false;
  EXPECT_FALSE(detector.observe(idle, 1000s));
  EXPECT_FALSE(detector.observe(idle, 2000s));
  EXPECT_FALSE(detector.observe(kStalled, 3000s));
  EXPECT_FALSE(detector.observe(idle, 3030s));
  EXPECT_FALSE(detector.observe(kStalled, 3070s))
      << "what came in between did no work, but there was none to do";
}

class HealthTest : public locksley::testing::PoolFixture {
 protected:
  HealthTest() {
    add_operator_pages(router, metrics,
                       {.slices = slices, .line_of = [](const HttpCaller&) { return kDaemonsLine; }}, health);
  }
  HttpReply get(std::string_view path) const { return router.route({.method = "GET", .path = path}); }

  asio::io_context io;
  Slices slices{io.get_executor()};
  MetricsPage metrics;
  Router router;
  Health health{pool, lane};
};

TEST_F(HealthTest, IsOkWhileIdleAndWhileAJobRuns) {
  EXPECT_EQ(get("/healthz").body, "ok\n");
  std::atomic<bool> leave = false;
  // One worker is blocked; the other has no work.
  auto batch = submit_range(handler([&](JobContext&, std::string_view) { leave.wait(false); }), 1);
  locksley::testing::wait_until([&] { return batch->status().running == 1; }, "the job runs");
  EXPECT_FALSE(health.trouble(steady_now()));
  EXPECT_FALSE(health.trouble(steady_now() + 1h));
  leave = true;
  leave.notify_all();
  wait_over(*batch);
}

// A lane that the pool does not serve looks like one whose wake-ups are lost.
TEST_F(HealthTest, NamesTheLaneThatLeavesItsWorkLying) {
  Lane unserved("left", FairRing::Options{});
  Health sick(pool, unserved);
  const auto batch = make(handler([](JobContext&, std::string_view) {}), std::make_unique<RangePayloads>(0));
  unserved.submit(batch, 3, /*open=*/false);
  const Nanoseconds now = steady_now();
  EXPECT_FALSE(sick.trouble(now));
  EXPECT_EQ(sick.trouble(now + 61s),
            "lane left has 3 jobs queued and 2 workers free, and nothing has moved for 61 s");
  unserved.cancel(*batch, "the test is over");
  EXPECT_FALSE(sick.trouble(now + 120s));
}

TEST_F(HealthTest, IsReadyOnlyWhileItServes) {
  EXPECT_EQ(get("/readyz").status, HttpStatus::kUnavailable);
  EXPECT_EQ(get("/readyz").body, "starting\n");
  health.set_phase(Health::Phase::kServing);
  EXPECT_EQ(get("/readyz").status, HttpStatus::kOk);
  health.set_phase(Health::Phase::kDraining);
  EXPECT_EQ(get("/readyz").status, HttpStatus::kUnavailable);
  EXPECT_EQ(get("/readyz").body, "draining\n");
  EXPECT_EQ(get("/healthz").status, HttpStatus::kOk) << "draining is no illness";
}

TEST_F(HealthTest, IsNotReadyWhileNoPageOfBatchesIsServed) {
  std::optional<std::string> reason;
  health.watch_role([&reason] { return reason; });
  health.set_phase(Health::Phase::kServing);
  EXPECT_FALSE(health.unready());
  reason = "another daemon may have taken over";
  EXPECT_EQ(health.unready(), reason);
}

TEST_F(HealthTest, IsNotReadyWhenTheStoreHasRefusedWritesForFiveSeconds) {
  std::optional<Nanoseconds> since;
  health.watch_store([&since] { return since; });
  health.set_phase(Health::Phase::kServing);
  EXPECT_FALSE(health.unready(1000s));
  since = 1000s;
  EXPECT_FALSE(health.unready(1004s)) << "the store is being reopened";
  EXPECT_EQ(health.unready(1007s), "the store has refused writes for 7 s");
  since = Nanoseconds{};
  EXPECT_EQ(get("/readyz").status, HttpStatus::kUnavailable);
  EXPECT_EQ(get("/healthz").status, HttpStatus::kOk) << "a restart would not help";
  since.reset();
  EXPECT_EQ(get("/readyz").body, "ready\n");
}

}  // namespace
}  // namespace locksley::daemon

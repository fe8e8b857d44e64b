// Lanes whose starts are scarce: who gets how many.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <string>

#include "core/ring/fair_ring.h"
#include "core/ring/fair_ring_gates.h"
#include "core/ring/fair_ring_groups.h"
#include "core/ring/fair_ring_view.h"

namespace locksley::test {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// Starts of a lane whose `rate` permits one in 50 ms, and of whose four slots most are idle.
class ScarceStarts {
 public:
  static constexpr Nanoseconds kInterval = milliseconds(50);
  static constexpr std::uint32_t kSlots = 4;

  ScarceStarts(std::uint32_t weight, Nanoseconds length, const std::string& tenant) : job(length) {
    options.tenant = tenant;
    options.weight = weight;
    options.batch = this;
  }

  // So many starts in the ring, each of which ends before the next.
  static void run(FairRing& ring, int starts, Nanoseconds& now) {
    for (int i = 0; i < starts; ++i, now += kInterval) {
      const auto claim = ring.try_claim(now, ClaimFilter::kAny, 1);
      ASSERT_TRUE(claim);
      ScarceStarts& batch = *static_cast<ScarceStarts*>(claim->queue->batch());
      ++batch.starts;
      const Settlement settlement{
          .charged = claim->charged, .actual = batch.job, .executed = 1, .started = 1};
      (void)ring.settle(batch.queue, settlement, now + batch.job);
    }
  }

  void enter(FairRing& ring, Nanoseconds now) {
    ring.attach(queue, options, nullptr);
    ring.add_jobs(queue, 100'000, now);
  }

  RingQueue queue;
  QueueOptions options;
  Nanoseconds job;
  int starts = 0;
};

TEST(FairRingStartsTest, ScarceStartsFollowWeightsWhateverTheJobsCost) {
  FairRing ring({.parallelism = ScarceStarts::kSlots,
                 .start_cost = ScarceStarts::kInterval * static_cast<std::int64_t>(ScarceStarts::kSlots)});
  ring.groups().set_tenant_weight("b", 3);
  ScarceStarts brief(1, microseconds(10), "a");
  ScarceStarts lengthy(1, milliseconds(49), "b");
  ScarceStarts heavy(2, microseconds(10), "b");
  Nanoseconds now{};
  for (ScarceStarts* batch : {&brief, &lengthy, &heavy}) batch->enter(ring, now);
  ScarceStarts::run(ring, 1200, now);
  EXPECT_NEAR(brief.starts, 300, 3);
  EXPECT_NEAR(lengthy.starts, 300, 3);
  EXPECT_NEAR(heavy.starts, 600, 3);
  const RingSnapshot snapshot = ring.view().snapshot(0, now);
  ASSERT_EQ(snapshot.tenants.size(), 2U);
  for (const TenantView& tenant : snapshot.tenants) {
    EXPECT_NEAR(tenant.received, tenant.share, 0.02) << "what is shown is what is shared: " << tenant.tenant;
  }
  EXPECT_EQ(ring.view().queue(brief.queue, now).job_cost, milliseconds(200)) << "the time of four slots";
  ScarceStarts late(1, milliseconds(49), "c");
  late.enter(ring, now);
  ScarceStarts::run(ring, 2, now);
  EXPECT_GE(late.starts, 1) << "a newcomer gets one of the next two starts";
  ring.detach_all();
}

TEST(FairRingStartsTest, JobsThatBeganAndGoBackHaveUsedUpTheirStarts) {
  FairRing ring({.start_cost = ScarceStarts::kInterval});
  ScarceStarts hands_back(1, milliseconds(1), "a");
  ScarceStarts other(1, milliseconds(1), "b");
  const Nanoseconds now{};
  for (ScarceStarts* batch : {&hands_back, &other}) batch->enter(ring, now);
  for (int i = 0; i < 20; ++i) {
    const auto claim = ring.try_claim(now, ClaimFilter::kAny, 1);
    ASSERT_TRUE(claim);
    const bool ends = claim->queue == &other.queue;
    ++(ends ? other : hands_back).starts;
    (void)ring.settle(*claim->queue,
                      {.charged = claim->charged,
                       .actual = milliseconds(1),
                       .executed = ends ? 1U : 0U,
                       .started = 1,
                       .left = ends ? IndexRange{} : claim->range},
                      now);
  }
  EXPECT_EQ(other.starts, 10);
  EXPECT_EQ(hands_back.starts, 10);
  ring.detach_all();
}

TEST(FairRingStartsTest, AnotherCostOfAStartMakesAllStartAnew) {
  // A start in an hour: the one that has had it is an hour ahead, which means nothing without the
  // rate.
  FairRing ring({.start_cost = std::chrono::hours(1)});
  ScarceStarts first(1, milliseconds(10), "a");
  ScarceStarts second(1, milliseconds(10), "b");
  Nanoseconds now{};
  first.enter(ring, now);
  ScarceStarts::run(ring, 1, now);
  second.enter(ring, now);
  ring.gates().set_start_cost(0, Nanoseconds{0});
  ScarceStarts::run(ring, 100, now);
  EXPECT_NEAR(first.starts, 51, 2);
  EXPECT_NEAR(second.starts, 50, 2);
  ring.detach_all();
}

}  // namespace
}  // namespace locksley::test

// Batches of which no job has ended yet: what a claim is charged, and which workers take it.
#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <string>

#include "core/ring/fair_ring.h"

namespace locksley {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

// Queues of one job each, and workers that are reserved for brief ones.
class FirstCostTest : public ::testing::Test {
 protected:
  ~FirstCostTest() override { ring.detach_all(); }

  void enter(const std::string& customer, const int& kind) {
    RingQueue& queue = queues.emplace_back();
    ring.attach(queue, {.customer = customer, .kind = &kind}, nullptr);
    ring.add_jobs(queue, 1, Nanoseconds{0});
    ring.close(queue, Nanoseconds{0});
  }
  bool run(ClaimFilter filter, Nanoseconds actual) {
    const auto claim = ring.try_claim(Nanoseconds{0}, filter);
    if (!claim) return false;
    charged = claim->charged.time;
    (void)ring.settle(*claim->queue, {.charged = claim->charged, .actual = actual, .executed = 1},
                      Nanoseconds{0});
    return true;
  }

  static constexpr Nanoseconds kQuantum = milliseconds(1);
  FairRing ring{{.quantum = kQuantum, .brief_job = milliseconds(100)}};
  std::deque<RingQueue> queues;
  const int wait{}, echo{};  // two handlers, by their addresses
  Nanoseconds charged{};     // in advance, for the last one that ran
};

TEST_F(FirstCostTest, OnceFourJobsWereLongReservedWorkersRunNoOtherBatchOfTheirKind) {
  for (int i = 0; i < 200; ++i) enter("long", wait);
  ASSERT_TRUE(run(ClaimFilter::kBrief, kQuantum));
  for (int i = 0; i < 4; ++i)
    ASSERT_TRUE(run(ClaimFilter::kBrief, seconds(5))) << "one job may have been held up";
  bool has_claimed = false;
  for (int i = 0; i < 10 && ring.hints().has_work(ClaimFilter::kBrief); ++i)
    has_claimed |= run(ClaimFilter::kBrief, kQuantum);
  EXPECT_FALSE(has_claimed) << "also those that had come before";
  EXPECT_FALSE(ring.hints().has_work(ClaimFilter::kBrief));
  enter("long", wait);
  EXPECT_FALSE(run(ClaimFilter::kBrief, kQuantum));
  enter("long", echo);
  EXPECT_TRUE(run(ClaimFilter::kBrief, kQuantum)) << "of another handler nothing is known";
}

TEST_F(FirstCostTest, OnceFourJobsWereLongTheUsersOtherCustomersTakeOneReservedWorkerAtATime) {
  for (int i = 0; i < 200; ++i) enter("customer " + std::to_string(i), wait);
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(run(ClaimFilter::kBrief, seconds(5)));
  const auto first = ring.try_claim(Nanoseconds{0}, ClaimFilter::kBrief);
  ASSERT_TRUE(first);
  std::size_t others = 0;
  for (int i = 0; i < 10 && ring.hints().has_work(ClaimFilter::kBrief); ++i)
    others += run(ClaimFilter::kBrief, seconds(5)) ? 1 : 0;
  EXPECT_EQ(others, 0);
  EXPECT_FALSE(ring.hints().has_work(ClaimFilter::kBrief));
  enter("late", wait);
  EXPECT_FALSE(run(ClaimFilter::kBrief, kQuantum)) << "the first has not ended";
  enter("another", echo);
  EXPECT_TRUE(run(ClaimFilter::kBrief, kQuantum)) << "of this handler nothing is known";
  (void)ring.settle(*first->queue, {.charged = first->charged, .actual = seconds(5), .executed = 1},
                    Nanoseconds{0});
  enter("later", wait);
  EXPECT_TRUE(run(ClaimFilter::kBrief, kQuantum)) << "one more may be brief";
  for (int i = 0; i < 3; ++i) {
    enter("brief " + std::to_string(i), wait);
    const auto claim = ring.try_claim(Nanoseconds{0}, ClaimFilter::kBrief);
    ASSERT_TRUE(claim);
    enter("beside " + std::to_string(i), wait);
    EXPECT_TRUE(run(ClaimFilter::kBrief, kQuantum)) << "the last four were not all long";
    (void)ring.settle(*claim->queue, {.charged = claim->charged, .actual = kQuantum, .executed = 1},
                      Nanoseconds{0});
  }
}

TEST_F(FirstCostTest, ATenantThatGetsCustomersWhileABatchRunsCountsItsTurn) {
  for (int i = 0; i < 4; ++i) enter("", wait);
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(run(ClaimFilter::kAny, seconds(5)));
  enter("", wait);
  const auto first = ring.try_claim(Nanoseconds{0}, ClaimFilter::kAny);
  ASSERT_TRUE(first);
  enter("customer", wait);
  EXPECT_FALSE(run(ClaimFilter::kBrief, kQuantum));
  (void)ring.settle(*first->queue, {.charged = first->charged, .actual = seconds(5), .executed = 1},
                    Nanoseconds{0});
  enter("other", wait);
  EXPECT_TRUE(run(ClaimFilter::kBrief, kQuantum));
}

TEST_F(FirstCostTest, ABatchIsChargedWhatTheOnesBeforeHaveCost) {
  enter("a", wait);
  ASSERT_TRUE(run(ClaimFilter::kAny, seconds(1)));
  EXPECT_EQ(charged, kQuantum);
  enter("a", wait);
  ASSERT_TRUE(run(ClaimFilter::kAny, milliseconds(200)));
  EXPECT_EQ(charged, seconds(1));
  enter("a", wait);
  ASSERT_TRUE(run(ClaimFilter::kAny, microseconds(1)));
  EXPECT_EQ(charged, milliseconds(800)) << "a quarter of the way";
  enter("b", wait);
  ASSERT_TRUE(run(ClaimFilter::kAny, seconds(1)));
  EXPECT_NEAR(static_cast<double>(charged.count()), 600e6, 1e6)
      << "a new customer: as the others of its user";
}

}  // namespace
}  // namespace locksley

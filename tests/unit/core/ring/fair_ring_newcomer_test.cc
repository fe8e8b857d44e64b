// How soon a newcomer is served where the jobs of the others cost far less than they were charged,
// and what of that is a credit or a debt later.
#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/ring/fair_ring.h"
#include "core/ring/fair_ring_gates.h"
#include "core/ring/fair_ring_groups.h"

namespace locksley {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

class FairRingNewcomerTest : public ::testing::Test {
 protected:
  static constexpr int kExecutors = 100;
  static constexpr std::uint64_t kMany = 1'000'000;

  ~FairRingNewcomerTest() override {
    for (const Claim& turn : turns) end(turn, milliseconds(1));
    ring.detach_all();
  }

  // `expected`: what its jobs seem to cost.
  RingQueue& enter(Nanoseconds expected, QueueOptions options = {}, std::uint64_t jobs = kMany) {
    RingQueue& queue = queues.emplace_back();
    options.cost_hint = expected;
    ring.attach(queue, options, nullptr);
    ring.add_jobs(queue, jobs, now);
    return queue;
  }
  Claim claim() { return ring.try_claim(now, ClaimFilter::kAny, 1).value(); }
  // Each executor takes a job.
  void claim_all() {
    while (turns.size() < kExecutors) turns.push_back(claim());
  }
  void end(const Claim& turn, Nanoseconds cost) {
    (void)ring.settle(*turn.queue, {.charged = turn.charged, .actual = cost, .executed = turn.range.size()},
                      now);
  }
  void end_all(Nanoseconds cost) {
    for (const Claim& turn : turns) end(turn, cost);
    turns.clear();
  }
  // The executors take `n` jobs of a millisecond one after the other, as they become free; how many
  // each queue got.
  std::map<const RingQueue*, int> serve(int n) {
    std::map<const RingQueue*, int> served;
    for (int i = 0; i < n; ++i) {
      if (turns.size() == kExecutors) {
        end(turns.front(), milliseconds(1));
        turns.pop_front();
      }
      turns.push_back(claim());
      ++served[turns.back().queue];
      now += milliseconds(1) / kExecutors;
    }
    return served;
  }

  Nanoseconds now{1'000'000};
  std::deque<RingQueue> queues;
  std::deque<Claim> turns;
  FairRing ring{{.parallelism = kExecutors}};
};

// The newcomer's share from its first turn on: a half, but for a turn of each executor.
#define EXPECT_HALF(served, newcomer) EXPECT_NEAR(served[newcomer], 1000, kExecutors)

TEST_F(FairRingNewcomerTest, DoesNotWaitForWhatItsUsersBatchWasChargedTooMuch) {
  enter(hours(1));
  claim_all();
  end_all(milliseconds(1));
  RingQueue& newcomer = enter(milliseconds(1));
  auto served = serve(2000);
  EXPECT_HALF(served, &newcomer);
}

TEST_F(FairRingNewcomerTest, DoesNotWaitForWhatAnotherUserWasChargedTooMuch) {
  enter(hours(1), {.tenant = "old"});
  claim_all();
  end_all(milliseconds(1));
  RingQueue& newcomer = enter(milliseconds(1), {.tenant = "new"});
  auto served = serve(2000);
  EXPECT_HALF(served, &newcomer);
}

TEST_F(FairRingNewcomerTest, DoesNotWaitIfTheTurnsOfTheOtherUserEndAfterItHasCome) {
  enter(hours(1), {.tenant = "old"});
  claim_all();
  RingQueue& newcomer = enter(milliseconds(1), {.tenant = "new"});
  end_all(milliseconds(1));
  auto served = serve(2000);
  EXPECT_HALF(served, &newcomer);
}

TEST_F(FairRingNewcomerTest, DoesNotWaitForWhatWasGivenBack) {
  enter(hours(1), {.tenant = "old"});
  claim_all();
  for (const Claim& turn : turns)
    (void)ring.settle(*turn.queue, {.charged = turn.charged, .left = turn.range}, now);
  turns.clear();
  RingQueue& newcomer = enter(milliseconds(1), {.tenant = "new"});
  EXPECT_EQ(serve(2)[&newcomer], 1);  // the old batch has waited longer, and has received nothing either
}

TEST_F(FairRingNewcomerTest, DoesNotWaitForWhatAnotherCustomerWasChargedTooMuch) {
  enter(hours(1), {.customer = "old"});
  claim_all();
  end_all(milliseconds(1));
  RingQueue& newcomer = enter(milliseconds(1), {.customer = "new"});
  auto served = serve(2000);
  EXPECT_HALF(served, &newcomer);
}

TEST_F(FairRingNewcomerTest, DoesNotWaitForWhatWasChargedTooMuchAtSeveralGates) {
  const GateId other = ring.gates().add({}).value();
  enter(hours(1), {.tenant = "old"});
  enter(hours(1), {.tenant = "old", .gate = other});
  claim_all();
  end_all(milliseconds(1));
  RingQueue& newcomer = enter(milliseconds(1), {.tenant = "new", .gate = other});
  auto served = serve(2000);
  EXPECT_HALF(served, &newcomer);
}

TEST_F(FairRingNewcomerTest, DoesNotWaitForWhatCustomersWereChargedTooMuchAtSeveralGates) {
  const GateId other = ring.gates().add({}).value();
  enter(hours(1), {.customer = "old"});
  enter(hours(1), {.customer = "old", .gate = other});
  claim_all();
  end_all(milliseconds(1));
  RingQueue& newcomer = enter(milliseconds(1), {.customer = "new", .gate = other});
  auto served = serve(2000);
  EXPECT_HALF(served, &newcomer);
}

// After its pause the old batch comes back with what it is charged, and settlements take it off.
TEST_F(FairRingNewcomerTest, DoesNotWaitForWhatWasChargedTooMuchBeforeAPause) {
  RingQueue& old = enter(hours(1), {.tenant = "old"});
  claim_all();
  for (int i = 0; i < 2; ++i) {
    ring.pause(old, now);
    ring.resume(old, now);
    turns.push_back(claim());
  }
  end_all(milliseconds(1));
  for (const char* const tenant : {"old", "new"}) {
    RingQueue& newcomer = enter(milliseconds(1), {.tenant = tenant});
    auto served = serve(2000);
    EXPECT_HALF(served, &newcomer) << tenant;
    end_all(milliseconds(1));
    (void)ring.cancel(newcomer, now);
  }
}

// A newcomer starts where the old batch stands without the charges of its turns in progress, so it
// may get a turn of each executor first. Of newcomers in a row only the first gets that: else the
// old batch would wait for all of them.
TEST_F(FairRingNewcomerTest, NewcomersInARowDoNotKeepOutTheOldBatch) {
  enter(milliseconds(1));
  claim_all();
  int served_old = 0;
  constexpr int kNewcomers = 50;
  for (int i = 0; i < kNewcomers; ++i) {
    RingQueue& newcomer = enter(milliseconds(1), {}, kExecutors);
    for (int left = kExecutors; left > 0;) {
      const bool is_new = serve(1).contains(&newcomer);
      (is_new ? left : served_old) += is_new ? -1 : 1;
    }
  }
  EXPECT_GE(served_old, kNewcomers * kExecutors * 8 / 10);
}

// While newcomers follow each other, each is alone, and all its jobs are claimed before one ends.
// The clock moves with their settlements, so an old batch does not stay behind for what it had
// before.
TEST_F(FairRingNewcomerTest, NewcomersInARowAreNotServedBeforeABatchThatWasPausedForLong) {
  RingQueue& old = enter(milliseconds(10));
  claim_all();
  for (; turns.size() > 1; turns.pop_front()) end(turns.front(), milliseconds(10));
  ring.pause(old, now);
  for (int i = 0; i < 50; ++i) {
    enter(milliseconds(1), {}, kExecutors);
    serve(kExecutors);
  }
  ring.resume(old, now);
  enter(milliseconds(1), {}, kExecutors);
  EXPECT_GE(serve(kExecutors)[&old], 8) << "a job of it costs as much as ten of theirs";
}

// The seat that is left when a gate is removed knows nothing of turns that have ended at the other.
TEST_F(FairRingNewcomerTest, DoesNotWaitForTurnsAtAGateThatWasRemoved) {
  const GateId removed = ring.gates().add({}).value();
  RingQueue& there = enter(hours(1), {.tenant = "old", .gate = removed});
  RingQueue& paused = enter(hours(1), {.tenant = "old"});
  ring.pause(paused, now);
  claim_all();
  ring.resume(paused, now);
  ring.pause(paused, now);
  (void)ring.cancel(there, now);
  end_all(milliseconds(1));
  ASSERT_TRUE(ring.gates().remove(removed));
  (void)ring.cancel(paused, now);
  RingQueue& old = enter(milliseconds(10), {.tenant = "old"});
  for (int i = 0; i < 1000; ++i) {
    const Claim turn = claim();
    ring.pause(old, now);
    ring.resume(old, now);
    end(turn, milliseconds(10));
  }
  RingQueue& newcomer = enter(milliseconds(10), {.tenant = "new"});
  int in_a_row = 0;
  for (bool is_new = true; is_new; in_a_row += is_new ? 1 : 0) {
    const Claim turn = claim();
    is_new = turn.queue == &newcomer;
    end(turn, milliseconds(10));
    ASSERT_LT(in_a_row, 10) << "it gets what the other had before it came";
  }
}

// An estimate that was right remains a debt: the newcomer does not get more than half for long.
TEST_F(FairRingNewcomerTest, StartsAtMostATurnOfEachExecutorBehindTheOthers) {
  RingQueue& old = enter(milliseconds(1), {.tenant = "old"});
  serve(10 * kExecutors);
  RingQueue& newcomer = enter(milliseconds(1), {.tenant = "new"});
  auto served = serve(kExecutors);
  EXPECT_GE(served[&newcomer], kExecutors / 2);
  served = serve(10 * kExecutors);
  EXPECT_NEAR(served[&newcomer], served[&old], kExecutors);
}

#undef EXPECT_HALF

// While jobs wait at a closed gate, clocks count all charges. A batch of its own user, or another
// user.
TEST_F(FairRingNewcomerTest, HasNoCreditForWhatRunsWhileOthersWaitAtAClosedGate) {
  const GateId off = *ring.gates().add({.is_on = false});
  enter(milliseconds(1), {.tenant = "waits", .gate = off});
  enter(milliseconds(1), {.tenant = "a"});
  for (const char* const tenant : {"a", "b"}) {
    claim_all();
    RingQueue& newcomer = enter(milliseconds(1), {.tenant = tenant});
    auto served = serve(kExecutors);
    EXPECT_NEAR(served[&newcomer], kExecutors / 2, 2) << tenant;
    (void)ring.cancel(newcomer, now);
  }
}

TEST_F(FairRingNewcomerTest, AnEstimateIsTakenBackFromTheBatchesWithoutACustomerToo) {
  RingQueue& without = enter(hours(1), {.tenant = "shop"});
  RingQueue& newcomer = enter(milliseconds(1), {.tenant = "shop", .customer = "first"});
  std::map<const RingQueue*, int> served;
  for (int i = 0; i < 20; ++i) {
    const Claim turn = claim();
    ++served[turn.queue];
    end(turn, milliseconds(1));
  }
  EXPECT_EQ(served[&without], 10);
  EXPECT_EQ(served[&newcomer], 10);
}

}  // namespace
}  // namespace locksley

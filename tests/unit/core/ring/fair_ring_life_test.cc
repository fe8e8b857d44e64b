// A queue's life: what keeps it in the ring, what cancels it, and whose jobs are settled when.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "core/ring/fair_ring.h"
#include "core/ring/fair_ring_view.h"

namespace locksley {
namespace {

using std::chrono::microseconds;
using ::testing::ElementsAre;

constexpr Nanoseconds kAnyTime{1'000};

// A queue that its ring alone keeps alive, as a batch is that nobody asks for any more.
struct Owned {
  RingQueue queue;
  static RingQueue& attach(FairRing& ring, std::weak_ptr<Owned>& weak, QueueOptions options = {}) {
    auto owned = std::make_shared<Owned>();
    weak = owned;
    ring.attach(owned->queue, options, owned);
    return owned->queue;
  }
};

TEST(FairRingLifeTest, AQueueLivesUntilItIsClosedDrainedAndSettled) {
  FairRing ring({});
  std::weak_ptr<Owned> weak;
  RingQueue& queue = Owned::attach(ring, weak);
  ring.add_jobs(queue, 1, kAnyTime);
  const auto claim = ring.try_claim(kAnyTime);
  EXPECT_TRUE(ring.settle(queue, {.charged = claim->charged, .executed = 1}, kAnyTime).dropped.empty());
  EXPECT_FALSE(weak.expired()) << "open";
  ring.add_jobs(queue, 1, kAnyTime);
  ring.close(queue, kAnyTime);
  EXPECT_FALSE(weak.expired()) << "has a job";
  EXPECT_FALSE(ring.add_jobs(queue, 1, kAnyTime)) << "closed";
  const auto last = ring.try_claim(kAnyTime);
  ASSERT_TRUE(last);
  EXPECT_FALSE(weak.expired()) << "has an executor";
  EXPECT_FALSE(ring.settle_and_claim(queue, {.charged = last->charged, .executed = 1}, kAnyTime).claim);
  EXPECT_TRUE(weak.expired());
  EXPECT_EQ(ring.view().snapshot(1, kAnyTime).queues, 0U);
}

TEST(FairRingLifeTest, ClosingAnEmptyQueueLetsItGoAtOnce) {
  FairRing ring({});
  std::weak_ptr<Owned> weak;
  RingQueue& queue = Owned::attach(ring, weak);
  ring.close(queue, kAnyTime);
  EXPECT_TRUE(weak.expired());
}

TEST(FairRingLifeTest, WhatIsGivenBackKeepsAClosedQueue) {
  FairRing ring({});
  std::weak_ptr<Owned> weak;
  RingQueue& queue = Owned::attach(ring, weak);
  ring.add_jobs(queue, 1, kAnyTime);
  ring.close(queue, kAnyTime);
  const auto claim = ring.try_claim(kAnyTime);
  (void)ring.settle(queue, {.charged = claim->charged, .left = claim->range}, kAnyTime);
  EXPECT_FALSE(weak.expired());
  EXPECT_TRUE(ring.hints().has_work());
  ring.detach_all();
  EXPECT_TRUE(weak.expired());
}

// A keepalive's deleter may call the ring: it runs without the mutex.
TEST(FairRingLifeTest, KeepalivesAreReleasedOutsideTheLock) {
  FairRing ring({});
  RingQueue queues[3];
  int released = 0;
  const auto keepalive = [&] {
    return std::shared_ptr<void>(&released, [&ring](void* count) {
      (void)ring.view().snapshot(1, kAnyTime);
      ++*static_cast<int*>(count);
    });
  };
  for (RingQueue& queue : queues) ring.attach(queue, {}, keepalive());
  ring.add_jobs(queues[0], 1, kAnyTime);
  ring.close(queues[0], kAnyTime);
  ring.close(queues[1], kAnyTime);
  EXPECT_EQ(released, 1);
  EXPECT_TRUE(ring.cancel(queues[2], kAnyTime).empty());
  EXPECT_EQ(released, 2);
  const auto claim = ring.try_claim(kAnyTime);
  (void)ring.settle_and_claim(queues[0], {.charged = claim->charged, .executed = 1}, kAnyTime);
  EXPECT_EQ(released, 3);
}

TEST(FairRingLifeTest, AQueueThatHasLeftCanBeAttachedAgain) {
  FairRing ring({});
  RingQueue queue;
  ring.attach(queue, {}, nullptr);
  ring.add_jobs(queue, 3, kAnyTime);
  EXPECT_THAT(ring.cancel(queue, kAnyTime), ElementsAre(IndexRange{0, 3}));
  EXPECT_FALSE(ring.view().queue(queue, kAnyTime).attached);
  ring.attach(queue, {}, nullptr);
  EXPECT_TRUE(ring.add_range(queue, {1, 2}, kAnyTime));
  EXPECT_EQ(ring.try_claim(kAnyTime)->range, (IndexRange{1, 2}));
  (void)ring.settle(queue, {.executed = 1}, kAnyTime);
  ring.close(queue, kAnyTime);
}

TEST(FairRingLifeTest, CallsOnAQueueThatHasLeftDoNothing) {
  FairRing ring({});
  RingQueue queue;
  ring.set_weight(queue, 3);
  ring.pause(queue, kAnyTime);
  ring.resume(queue, kAnyTime);
  ring.set_slots(queue, 3, kAnyTime);
  ring.close(queue, kAnyTime);
  EXPECT_TRUE(ring.cancel(queue, kAnyTime).empty());
  EXPECT_FALSE(ring.add_jobs(queue, 3, kAnyTime));
  EXPECT_FALSE(ring.hints().has_work());
}

TEST(FairRingLifeTest, CancelDropsWhatIsQueuedAndWhatIsGivenBackLater) {
  FairRing ring({});
  RingQueue queue;
  ring.attach(queue, {.cost_hint = microseconds(100)}, nullptr);
  ring.add_jobs(queue, 100, kAnyTime);
  const auto first = ring.try_claim(kAnyTime);
  const auto second = ring.try_claim(kAnyTime);
  (void)ring.settle(queue, {.charged = first->charged, .executed = 4, .left = {4, 10}}, kAnyTime);
  ring.pause(queue, kAnyTime);
  EXPECT_THAT(ring.cancel(queue, kAnyTime),
              ::testing::UnorderedElementsAre(IndexRange{4, 10}, IndexRange{20, 100}));
  ring.pause(queue, kAnyTime);
  EXPECT_FALSE(ring.view().queue(queue, kAnyTime).paused) << "there is nothing left to hold back";
  EXPECT_FALSE(ring.hints().has_work());
  EXPECT_EQ(
      ring.settle(queue, {.charged = second->charged, .executed = 3, .left = {13, 20}}, kAnyTime).dropped,
      (IndexRange{13, 20}));
  EXPECT_FALSE(ring.view().queue(queue, kAnyTime).attached);
}

TEST(FairRingLifeTest, StolenJobsKeepTheQueueUntilTheirThiefHasSettled) {
  FairRing ring({});
  std::weak_ptr<Owned> weak;
  RingQueue& queue = Owned::attach(ring, weak, {.cost_hint = microseconds(100)});
  ring.add_jobs(queue, 10, kAnyTime);
  ring.close(queue, kAnyTime);
  const auto claim = ring.try_claim(kAnyTime);
  ASSERT_EQ(claim->range, (IndexRange{0, 10}));
  // A thief has taken [6, 10), and has not told the ring when the victim settles all that it has.
  (void)ring.settle(queue, {.charged = claim->charged, .actual = microseconds(600), .executed = 6}, kAnyTime);
  ASSERT_FALSE(weak.expired());
  EXPECT_TRUE(ring.view().queue(queue, kAnyTime).attached);
  EXPECT_EQ(ring.view().queue(queue, kAnyTime).executors, 0U);
  EXPECT_FALSE(ring.hints().has_work());
  const Charge thief = ring.join(queue, kAnyTime);
  EXPECT_EQ(ring.view().queue(queue, kAnyTime).executors, 1U);
  (void)ring.settle(queue, {.charged = thief, .actual = microseconds(400), .executed = 4}, kAnyTime);
  EXPECT_TRUE(weak.expired());
}

TEST(FairRingLifeTest, WhatAThiefGivesBackIsServedAgain) {
  FairRing ring({});
  std::weak_ptr<Owned> weak;
  RingQueue& queue = Owned::attach(ring, weak, {.cost_hint = microseconds(100)});
  ring.add_jobs(queue, 10, kAnyTime);
  ring.close(queue, kAnyTime);
  const auto claim = ring.try_claim(kAnyTime);
  (void)ring.settle(queue, {.charged = claim->charged, .executed = 6}, kAnyTime);
  const Charge thief = ring.join(queue, kAnyTime);
  const Settled settled = ring.settle_and_claim(queue, {.charged = thief, .left = {6, 10}}, kAnyTime);
  ASSERT_TRUE(settled.claim);
  EXPECT_EQ(settled.claim->range, (IndexRange{6, 10}));
  EXPECT_FALSE(weak.expired());
  (void)ring.settle(queue, {.charged = settled.claim->charged, .executed = 4}, kAnyTime);
  EXPECT_TRUE(weak.expired());
}

TEST(FairRingLifeTest, AThiefMayJoinAPausedQueueAndHandsItsPartBack) {
  FairRing ring({});
  RingQueue queue;
  ring.attach(queue, {.cost_hint = microseconds(100)}, nullptr);
  ring.add_jobs(queue, 10, kAnyTime);
  const auto claim = ring.try_claim(kAnyTime);
  ring.pause(queue, kAnyTime);
  const Charge thief = ring.join(queue, kAnyTime);
  EXPECT_EQ(ring.view().queue(queue, kAnyTime).executors, 2U);
  EXPECT_TRUE(ring.settle(queue, {.charged = thief, .left = {6, 10}}, kAnyTime).dropped.empty());
  EXPECT_EQ(ring.view().queue(queue, kAnyTime).executors, 1U);
  (void)ring.settle(queue, {.charged = claim->charged, .executed = 1, .left = {1, 6}}, kAnyTime);
  EXPECT_EQ(ring.view().queue(queue, kAnyTime).queued, 9U);
  EXPECT_FALSE(ring.hints().has_work()) << "paused";
  ring.resume(queue, kAnyTime);
  EXPECT_TRUE(ring.hints().has_work());
  ring.detach_all();
}

TEST(FairRingLifeTest, AThiefMayJoinACancelledQueueAndItsPartIsDropped) {
  FairRing ring({});
  std::weak_ptr<Owned> weak;
  RingQueue& queue = Owned::attach(ring, weak, {.cost_hint = microseconds(100)});
  ring.add_jobs(queue, 10, kAnyTime);
  const auto claim = ring.try_claim(kAnyTime);
  EXPECT_TRUE(ring.cancel(queue, kAnyTime).empty()) << "all is claimed";
  EXPECT_EQ(ring.settle(queue, {.charged = claim->charged, .executed = 2, .left = {2, 6}}, kAnyTime).dropped,
            (IndexRange{2, 6}));
  ASSERT_FALSE(weak.expired());
  const Charge thief = ring.join(queue, kAnyTime);
  EXPECT_EQ(ring.view().queue(queue, kAnyTime).executors, 1U);
  EXPECT_EQ(ring.settle(queue, {.charged = thief, .left = {6, 10}}, kAnyTime).dropped, (IndexRange{6, 10}));
  EXPECT_TRUE(weak.expired());
}

TEST(FairRingLifeDeathTest, WhatWasNotClaimedCannotBeSettled) {
  FairRing ring({});
  RingQueue queue;
  ring.attach(queue, {.cost_hint = microseconds(100)}, nullptr);
  ring.add_jobs(queue, 100, kAnyTime);
  EXPECT_DEATH(ring.join(queue, kAnyTime), "nothing is claimed");
  const auto claim = ring.try_claim(kAnyTime);
  ASSERT_EQ(claim->range, (IndexRange{0, 10}));
  const auto settle = [&](std::uint64_t executed, IndexRange left) {
    (void)ring.settle(queue, {.charged = claim->charged, .executed = executed, .left = left}, kAnyTime);
  };
  EXPECT_DEATH(settle(11, {}), "not claimed");
  EXPECT_DEATH(settle(0, {0, 11}), "not claimed");
  EXPECT_DEATH(settle(5, {4, 10}), "not claimed");
  EXPECT_DEATH(settle(~std::uint64_t{0}, {0, 2}), "not claimed") << "the sum overflows";
  EXPECT_DEATH(ring.detach_all(), "has executors");
  // Half of it was stolen; then the victim has only the other half to settle, and a thief the rest.
  settle(5, {});
  EXPECT_DEATH(settle(5, {}), "without a turn");
  EXPECT_DEATH(ring.detach_all(), "a thief holds");
  const Charge thief = ring.join(queue, kAnyTime);
  EXPECT_DEATH((void)ring.settle(queue, {.charged = thief, .executed = 6}, kAnyTime), "not claimed");
  (void)ring.settle(queue, {.charged = thief, .executed = 5}, kAnyTime);
  ring.detach_all();
}

}  // namespace
}  // namespace locksley

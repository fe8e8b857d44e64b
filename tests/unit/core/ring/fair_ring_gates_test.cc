// Gates: which claims they admit, what hints and views say of them, and how they come and go.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/ring/fair_ring.h"
#include "core/ring/fair_ring_gates.h"
#include "core/ring/fair_ring_groups.h"
#include "core/ring/fair_ring_view.h"

namespace locksley {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;

class FairRingGatesTest : public ::testing::Test {
 protected:
  ~FairRingGatesTest() override {
    while (!turns.empty()) settle();
    ring.detach_all();
  }

  RingQueue& enter(GateId gate, std::uint64_t jobs = 100, const std::string& tenant = "a") {
    RingQueue& queue = queues.emplace_back();
    ring.attach(queue, {.tenant = tenant, .cost_hint = milliseconds(1), .gate = gate}, nullptr);
    ring.add_jobs(queue, jobs, now);
    return queue;
  }
  // The queue that a claim takes one job of; null: none.
  RingQueue* claim(const GateSet* gates = nullptr, ClaimFilter filter = ClaimFilter::kAny) {
    const auto claimed = ring.try_claim(now, filter, 1, gates);
    if (!claimed) return nullptr;
    turns.push_back(*claimed);
    return claimed->queue;
  }
  // The oldest turn ends.
  void settle() {
    const Claim turn = turns.front();
    turns.pop_front();
    now += milliseconds(1);
    (void)ring.settle(*turn.queue,
                      {.charged = turn.charged, .actual = milliseconds(1), .executed = turn.range.size()},
                      now);
  }
  GateView view(GateId gate) {
    for (const GateView& each : ring.view().snapshot(0, now).gates) {
      if (each.gate == gate) return each;
    }
    return {};
  }

  Nanoseconds now{};
  FairRing ring{{.parallelism = 8, .brief_job = milliseconds(5)}};
  std::deque<RingQueue> queues;
  std::deque<Claim> turns;
};

TEST_F(FairRingGatesTest, AGateAdmitsAsManyExecutorsAsItsConcurrency) {
  const GateId gate = *ring.gates().add({.concurrency = 2});
  RingQueue& queue = enter(gate);
  EXPECT_EQ(claim(), &queue);
  EXPECT_EQ(claim(), &queue);
  EXPECT_EQ(claim(), nullptr);
  EXPECT_EQ(turns.front().charged.gate(), gate);
  settle();
  EXPECT_EQ(claim(), &queue);
  EXPECT_EQ(claim(), nullptr);
  RingQueue& other = enter(0);
  EXPECT_EQ(claim(), &other) << "other gates are open";
  const GateSet only(gate);
  ring.gates().set_concurrency(gate, 3);
  EXPECT_EQ(claim(&only), &queue);
  ring.gates().set_concurrency(gate, 1);
  for (int i = 0; i < 3; ++i) settle();
  EXPECT_EQ(claim(&only), nullptr) << "one of the gate still runs";
  settle();
  EXPECT_EQ(claim(&only), &queue);
}

TEST_F(FairRingGatesTest, AClaimLeavesEachExecutorOfTheGateItsPart) {
  const GateId gate = *ring.gates().add({.concurrency = 2});
  RingQueue& queue = queues.emplace_back();
  ring.attach(queue, {.cost_hint = std::chrono::microseconds(10), .gate = gate}, nullptr);
  ring.add_jobs(queue, 100, now);
  turns.push_back(*ring.try_claim(now));
  EXPECT_EQ(turns.back().range.size(), 50U);
}

TEST_F(FairRingGatesTest, ASwitchStopsClaimsAndNotWhatRuns) {
  RingQueue& queue = enter(0);
  EXPECT_EQ(claim(), &queue);
  ring.gates().set_switch(0, false);
  EXPECT_EQ(claim(), nullptr);
  EXPECT_FALSE(ring.hints().has_work());
  settle();
  EXPECT_EQ(claim(), nullptr);
  const std::uint64_t arrivals = ring.hints().arrivals();
  ring.gates().set_switch(0, true);
  EXPECT_EQ(ring.hints().arrivals(), arrivals + 1) << "what waited has come";
  EXPECT_EQ(claim(), &queue);
  const GateId off = *ring.gates().add({.is_on = false});
  RingQueue& other = enter(off);
  EXPECT_FALSE(ring.view().queue(other, now).waiting);
  EXPECT_TRUE(ring.view().queue(other, now).gate_is_closed);
}

TEST_F(FairRingGatesTest, AClaimMayBeRestrictedToSomeGates) {
  const GateId one = *ring.gates().add({});
  const GateId two = *ring.gates().add({.concurrency = 1});
  RingQueue& none = enter(0);
  RingQueue& first = enter(one);
  RingQueue& second = enter(two);
  GateSet both(one);
  both.add(two);
  const GateSet only_one(one), only_two(two), nothing;
  EXPECT_EQ(claim(&nothing), nullptr);
  EXPECT_EQ(claim(&only_two), &second);
  EXPECT_EQ(claim(&only_two), nullptr) << "it is at its concurrency";
  EXPECT_EQ(claim(&both), &first);
  EXPECT_EQ(claim(&only_one), &first);
  both.remove(one);
  EXPECT_EQ(claim(&both), nullptr);
  EXPECT_EQ(claim(), &none) << "the one that had least";
}

TEST_F(FairRingGatesTest, ARestrictedClaimDoesNotMoveTheClockPastTheOthers) {
  const GateId gate = *ring.gates().add({});
  RingQueue& waits = enter(0, 100, "b");
  RingQueue& preferred = enter(gate, 100, "a");
  const GateSet only(gate);
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(claim(&only), &preferred);
    settle();
  }
  RingQueue& newcomer = enter(0, 100, "c");
  EXPECT_EQ(claim(), &waits);
  EXPECT_EQ(claim(), &newcomer) << "it starts where the one that was passed over is";
  for (int i = 0; i < 10; ++i) {
    settle();
    EXPECT_NE(claim(), &preferred) << "it has had its part";
  }
}

TEST_F(FairRingGatesTest, WhoWasPreferredForAWhileYieldsAsLongAfterwards) {
  const GateId gate = *ring.gates().add({});
  RingQueue& waits = enter(0, 100, "b");
  RingQueue& preferred = enter(gate, 100, "a");
  GateSet only(GateSet::Restriction::kPassing);
  only.add(gate);
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(claim(&only), &preferred);
    settle();
  }
  // After a lasting restriction it would owe no more than a turn of each of the eight executors.
  for (int i = 0; i < 19; ++i) {
    ASSERT_EQ(claim(), &waits) << i;
    settle();
  }
  std::vector<RingQueue*> next;
  for (int i = 0; i < 7; ++i) {
    next.push_back(claim());
    settle();
  }
  EXPECT_THAT(next, ::testing::Contains(&preferred).Times(3));
}

TEST_F(FairRingGatesTest, AGateBoundsItsClaims) {
  const GateId gate = *ring.gates().add({.largest_claim = 3});
  RingQueue& queue = queues.emplace_back();
  ring.attach(queue, {.cost_hint = Nanoseconds{1}, .gate = gate}, nullptr);
  ring.add_jobs(queue, 1000, now);
  const auto size = [&] {
    turns.push_back(*ring.try_claim(now));
    return turns.back().range.size();
  };
  EXPECT_EQ(size(), 3U);
  ring.gates().set_largest_claim(gate, 7);
  EXPECT_EQ(size(), 7U);
  // An eighth of the 990 that are left.
  ring.gates().set_largest_claim(gate, 0);
  EXPECT_GT(size(), 20U);
}

TEST_F(FairRingGatesTest, BriefJobsAreClaimedOfOpenGatesOnly) {
  const GateId gate = *ring.gates().add({.concurrency = 1});
  RingQueue& lengthy = queues.emplace_back();
  ring.attach(lengthy, {.cost_hint = milliseconds(50)}, nullptr);
  ring.add_jobs(lengthy, 10, now);
  RingQueue& brief = enter(gate);
  EXPECT_TRUE(ring.hints().has_work(ClaimFilter::kBrief));
  EXPECT_TRUE(ring.hints().has_work(GateSet(gate), ClaimFilter::kBrief));
  EXPECT_FALSE(ring.hints().has_work(GateSet(0), ClaimFilter::kBrief));
  EXPECT_EQ(claim(nullptr, ClaimFilter::kBrief), &brief);
  EXPECT_EQ(claim(nullptr, ClaimFilter::kBrief), nullptr);
  EXPECT_FALSE(ring.hints().has_work(ClaimFilter::kBrief));
  EXPECT_TRUE(ring.hints().has_work());
}

TEST_F(FairRingGatesTest, HintsSayWhatEachGateHas) {
  const GateId narrow = *ring.gates().add({.concurrency = 1});
  std::vector<GateId> many;
  for (int i = 0; i < 70; ++i) many.push_back(*ring.gates().add({}));
  EXPECT_FALSE(ring.hints().has_work(GateSet(narrow)));
  enter(narrow);
  RingQueue& far = enter(many.back(), 1);
  EXPECT_TRUE(ring.hints().has_work(GateSet(narrow)));
  EXPECT_TRUE(ring.hints().has_work(GateSet(many.back())));
  EXPECT_FALSE(ring.hints().has_work(GateSet(many.front())));
  const GateSet only_narrow(narrow), only_far(many.back());
  claim(&only_narrow);
  EXPECT_FALSE(ring.hints().has_work(only_narrow)) << "it is closed";
  EXPECT_TRUE(ring.hints().has_work());
  EXPECT_EQ(claim(&only_far), &far);
  EXPECT_FALSE(ring.hints().has_work());
  settle();
  EXPECT_TRUE(ring.hints().has_work(only_narrow));
  // A turn and the next under one lock: the gate closes again.
  const Claim turn = *ring.try_claim(now, ClaimFilter::kAny, 1, &only_narrow);
  const auto next = ring.settle_and_claim(*turn.queue, {.charged = turn.charged, .executed = 1}, now);
  ASSERT_TRUE(next.claim);
  EXPECT_FALSE(ring.hints().has_work(only_narrow));
  turns.push_back(*next.claim);
}

TEST_F(FairRingGatesTest, ViewsCountByGate) {
  const GateId gate = *ring.gates().add({.concurrency = 1});
  enter(0, 5);
  RingQueue& queue = enter(gate, 3);
  RingQueue& idle = enter(gate, 0, "b");
  const GateSet only(gate);
  EXPECT_EQ(claim(&only), &queue);
  const GateView here = view(gate);
  EXPECT_EQ(here.concurrency, 1U);
  EXPECT_TRUE(here.is_on);
  EXPECT_FALSE(here.is_open);
  EXPECT_EQ(here.queues, 2U);
  EXPECT_EQ(here.active_queues, 1U);
  EXPECT_EQ(here.queued, 2U);
  EXPECT_EQ(here.executors, 1U);
  EXPECT_EQ(view(0).queued, 5U);
  EXPECT_EQ(view(0).executors, 0U);
  EXPECT_TRUE(view(0).is_open);
  EXPECT_EQ(ring.view().queue(queue, now).gate, gate);
  EXPECT_EQ(ring.view().queue(idle, now).gate, gate);
  EXPECT_TRUE(ring.view().has_queues(gate));
  EXPECT_FALSE(ring.view().has_queues(*ring.gates().add({})));
}

TEST_F(FairRingGatesTest, WhatWaitsAtAClosedGateIsNotAhead) {
  const GateId closed = *ring.gates().add({.is_on = false});
  for (int i = 0; i < 5; ++i) enter(closed);
  for (int i = 0; i < 3; ++i) enter(0);
  EXPECT_EQ(ring.view().queue(queues.back(), now).ahead, 2U);
  ring.gates().set_switch(closed, true);
  EXPECT_EQ(ring.view().queue(queues.back(), now).ahead, 7U);
}

TEST_F(FairRingGatesTest, ThievesCountAndMayExceedTheConcurrency) {
  const GateId gate = *ring.gates().add({.concurrency = 1});
  RingQueue& queue = enter(gate);
  EXPECT_EQ(claim(), &queue);
  const Charge charged = ring.join(queue, now);
  EXPECT_EQ(view(gate).executors, 2U);
  settle();
  EXPECT_EQ(claim(), nullptr) << "the thief is one";
  (void)ring.settle(queue, {.charged = charged, .actual = milliseconds(1)}, now);
  EXPECT_EQ(claim(), &queue);
}

TEST_F(FairRingGatesTest, ADebtOutlivesTheGateWhereItWasMade) {
  const GateId gate = *ring.gates().add({});
  RingQueue& first = enter(gate, 10);
  ASSERT_EQ(claim(), &first);
  RingQueue& other = enter(0, 1'000, "b");
  const Claim turn = turns.front();
  turns.pop_front();
  (void)ring.settle(first, {.charged = turn.charged, .actual = milliseconds(100), .executed = 1}, now);
  EXPECT_EQ(ring.cancel(first, now).size(), 1U);
  ASSERT_TRUE(ring.gates().remove(gate));
  RingQueue& again = enter(0, 1'000);
  int others = 0;
  for (; claim() != &again; settle()) ASSERT_LT(++others, 1'000);
  EXPECT_GT(others, 90) << "of 1 ms each";
  EXPECT_EQ(ring.cancel(other, now).size(), 1U);
}

TEST_F(FairRingGatesTest, WhatIsCancelledOrTakenOutLeavesItsGate) {
  const GateId gate = *ring.gates().add({.concurrency = 1});
  RingQueue& cancelled = enter(gate, 10, "a");
  RingQueue& taken = enter(gate, 10, "b");
  EXPECT_EQ(claim(), &cancelled);
  EXPECT_EQ(ring.cancel(cancelled, now).size(), 1U);
  EXPECT_EQ(view(gate).queues, 2U) << "it has an executor";
  EXPECT_FALSE(ring.gates().remove(gate));
  settle();
  EXPECT_FALSE(ring.view().queue(cancelled, now).attached);
  EXPECT_EQ(claim(), &taken);
  EXPECT_FALSE(ring.take_out(taken, now));
  settle();
  EXPECT_THAT(ring.take_out(taken, now)->ranges, ElementsAre(IndexRange{1, 10}));
  EXPECT_EQ(view(gate).queued + view(gate).queues + view(gate).executors + view(gate).active_queues, 0U);
  EXPECT_FALSE(ring.hints().has_work(GateSet(gate)));
  // To another gate, and to another ring's.
  ring.attach(taken, {.tenant = "b"}, nullptr);
  ring.queue_again(taken, std::vector<IndexRange>{{1, 10}}, now);
  EXPECT_EQ(claim(), &taken);
  EXPECT_EQ(view(0).executors, 1U);
  EXPECT_TRUE(ring.gates().remove(gate));
}

TEST_F(FairRingGatesTest, GatesComeAndGoWhileTenantsStay) {
  RingQueue& here = enter(0);
  const GateId gate = *ring.gates().add({});
  {
    RingQueue there;
    ring.attach(there, {.tenant = "a", .gate = gate}, nullptr);
    ring.add_jobs(there, 1, now);
    EXPECT_FALSE(ring.gates().remove(gate)) << "a queue belongs to it";
    const GateSet only(gate);
    EXPECT_EQ(claim(&only), &there);
    ring.close(there, now);
    settle();
  }
  EXPECT_TRUE(ring.gates().remove(gate));
  EXPECT_FALSE(ring.gates().remove(0));
  EXPECT_EQ(ring.view().snapshot(0, now).gates.size(), 1U);
  EXPECT_EQ(claim(), &here);
  EXPECT_EQ(ring.gates().add({}), gate) << "the number is used again";
  for (GateId i = 2; i < kMostGates; ++i) EXPECT_EQ(ring.gates().add({}), i);
  EXPECT_EQ(ring.gates().add({}), std::nullopt);
}

TEST_F(FairRingGatesTest, ATenantWhoseResultsAreFullIsPassedOverAtEveryGate) {
  ResultAccount account;
  account.set_limit(1);
  account.charge(1);
  const GateId gate = *ring.gates().add({});
  for (const GateId each : {GateId{0}, gate}) {
    ring.attach(queues.emplace_back(), {.tenant = "full", .results = &account, .gate = each}, nullptr);
    ring.add_jobs(queues.back(), 10, now);
  }
  RingQueue& other = enter(gate, 10, "b");
  EXPECT_EQ(claim(), &other);
  EXPECT_EQ(claim(), &other);
  account.refund(1);
  EXPECT_TRUE(ring.groups().reopen_tenants());
  EXPECT_NE(claim(), &other);
  EXPECT_NE(claim(), &other);
}

TEST_F(FairRingGatesTest, ANewStartCostStartsAnewAtItsGateAlone) {
  const GateId gate = *ring.gates().add({});
  RingQueue& a = enter(gate, 100, "a");
  RingQueue& b = enter(gate, 100, "b");
  for (int i = 0; i < 10; ++i) {
    turns.push_back(*ring.try_claim(now));
    settle();
  }
  ring.gates().set_switch(gate, false);
  ring.gates().set_start_cost(gate, milliseconds(100));
  ring.gates().set_switch(gate, true);
  RingQueue* const first = claim();
  EXPECT_NE(first, nullptr);
  EXPECT_EQ(claim(), first == &a ? &b : &a) << "each start costs the same";
  EXPECT_EQ(ring.view().queue(a, now).job_cost, milliseconds(100));
  EXPECT_EQ(ring.view().queue(enter(0), now).job_cost, milliseconds(1));
}

}  // namespace
}  // namespace locksley

// What can be seen of a ring and of a queue in it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/ring/fair_ring_groups.h"
#include "core/ring/fair_ring_view.h"
#include "tests/support/ring_simulator.h"

namespace locksley::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Batch = RingSimulator::Batch;

constexpr Nanoseconds kViewedAt{1'000};

TEST(FairRingViewTest, WhatIsNobodysBatchIsNotCounted) {
  FairRing ring({});
  RingQueue internal;
  RingQueue batch;
  ring.attach(internal, {.is_internal = true}, nullptr);
  EXPECT_EQ(ring.view().snapshot(0, kViewedAt).queues, 0U);
  ASSERT_EQ(ring.view().snapshot(0, kViewedAt).tenants.size(), 1U);  // its time is the tenant's all the same
  EXPECT_TRUE(ring.view().snapshot(0, kViewedAt).tenants[0].is_idle);
  ring.attach(batch, {}, nullptr);
  EXPECT_FALSE(ring.view().snapshot(0, kViewedAt).tenants[0].is_idle);
  for (RingQueue* const leaves : {&internal, &batch}) {
    EXPECT_EQ(ring.view().snapshot(0, kViewedAt).queues, 1U);
    EXPECT_EQ(ring.view().snapshot(0, kViewedAt).tenants[0].queues, 1U);
    ring.close(*leaves, kViewedAt);
  }
  EXPECT_EQ(ring.view().snapshot(0, kViewedAt).queues, 0U);
}

// A reader that needs less than a snapshot gets just that, and the same.
TEST(FairRingViewTest, OneTenantAPageOfTenantsAndTheTotalsAgreeWithTheSnapshot) {
  RingSimulator simulator({.parallelism = 2}, 2);
  simulator.ring.groups().set_tenant_weight("b", 3);
  for (const char* tenant : {"d", "b", "a", "c"}) {
    simulator.submit({.tenant = tenant}, 10'000, [](auto) { return milliseconds(1); });
  }
  simulator.submit({.tenant = "b", .customer = "named"}, 10'000, [](auto) { return milliseconds(1); });
  simulator.run_for(seconds(2));
  const Nanoseconds now = simulator.now();
  const FairRing::View view = simulator.ring.view();
  const RingSnapshot snapshot = view.snapshot(0, now);

  const RingTotals totals = view.totals();
  EXPECT_EQ(totals.queued, snapshot.queued);
  EXPECT_EQ(totals.executors, 2U);
  EXPECT_EQ(totals.active_queues, 5U);
  EXPECT_EQ(totals.claims_total, snapshot.claims_total);
  ASSERT_EQ(view.gates().size(), snapshot.gates.size());
  EXPECT_EQ(view.gates().front().queued, totals.queued);

  const auto equal = [](const TenantView& one, const TenantView& other) {
    return one.tenant == other.tenant && one.weight == other.weight && one.queues == other.queues &&
           one.queued == other.queued && one.busy == other.busy && one.share == other.share &&
           one.received == other.received && one.due == other.due && one.is_idle == other.is_idle;
  };
  ASSERT_EQ(snapshot.tenants.size(), 4U);
  for (const TenantView& tenant : snapshot.tenants) {
    const auto alone = view.tenant(tenant.tenant, now);
    ASSERT_TRUE(alone.has_value()) << tenant.tenant;
    EXPECT_TRUE(equal(*alone, tenant)) << tenant.tenant;
  }
  EXPECT_EQ(view.tenant("b", now)->weight, 3U);
  EXPECT_FALSE(view.tenant("e", now).has_value());

  std::vector<TenantView> pages = view.tenants(nullptr, 3, now);
  ASSERT_EQ(pages.size(), 3U);
  const std::string last = pages.back().tenant;
  for (const TenantView& tenant : view.tenants(&last, 3, now)) pages.push_back(tenant);
  EXPECT_TRUE(std::ranges::equal(pages, snapshot.tenants, equal));
  const std::string gone = "bb";  // a tenant that has left since the page before
  EXPECT_EQ(view.tenants(&gone, 1, now).front().tenant, "c");
  EXPECT_TRUE(view.tenants(nullptr, 0, now).empty());
}

TEST(FairRingViewTest, SnapshotAndViewTellWhatIsThere) {
  RingSimulator simulator({.parallelism = 2}, 2);
  simulator.ring.groups().set_tenant_weight("a", 3);
  Batch& a = simulator.submit({.tenant = "a"}, 100'000, [](auto) { return milliseconds(1); });
  simulator.submit({.tenant = "b", .weight = 1}, 50'000, [](auto) { return milliseconds(1); });
  Batch& b2 = simulator.submit({.tenant = "b", .weight = 3}, 70'000, [](auto) { return milliseconds(1); });
  simulator.submit({.tenant = "b"}, 0, [](auto) { return milliseconds(1); }, true);
  simulator.run_for(seconds(20));
  const Nanoseconds now = simulator.now();
  const RingSnapshot snapshot = simulator.ring.view().snapshot(2, now);
  EXPECT_EQ(snapshot.queued + snapshot.executors + 40'000, 220'000U);
  EXPECT_EQ(snapshot.executors, 2U);
  EXPECT_EQ(snapshot.queues, 4U);
  EXPECT_EQ(snapshot.active_queues, 3U);
  EXPECT_EQ(snapshot.claims_total, 40'002U);
  ASSERT_EQ(snapshot.deepest.size(), 2U);
  EXPECT_EQ(snapshot.deepest[0], simulator.ring.view().queue(a.queue, now).queued);
  EXPECT_GE(snapshot.deepest[0], snapshot.deepest[1]);
  ASSERT_EQ(snapshot.tenants.size(), 2U);
  EXPECT_EQ(snapshot.tenants[0].tenant, "a");
  EXPECT_EQ(snapshot.tenants[0].share, 0.75);
  EXPECT_NEAR(snapshot.tenants[0].received, 0.75, 0.01);
  EXPECT_NEAR(static_cast<double>(snapshot.tenants[0].busy.count()), 30e9, 1e8);
  EXPECT_EQ(snapshot.tenants[1].queues, 3U);
  EXPECT_EQ(snapshot.tenants[1].share, 0.25);
  const QueueView view = simulator.ring.view().queue(b2.queue, now);
  EXPECT_EQ(view.share, 0.25 * 0.75);
  EXPECT_NEAR(view.received, 0.25 * 0.75, 0.01);
  EXPECT_EQ(view.job_cost, milliseconds(1));
  EXPECT_TRUE(view.waiting);
}

TenantView tenant_in(const RingSimulator& simulator, std::string_view name) {
  for (const TenantView& tenant : simulator.ring.view().snapshot(0, simulator.now()).tenants) {
    if (tenant.tenant == name) return tenant;
  }
  return {};
}

Batch& submit_short(RingSimulator& simulator) {
  return simulator.submit({.tenant = "short"}, 20, [](auto) { return milliseconds(1); });
}

TEST(FairRingViewTest, ATenantThatIsAloneWithOneShortBatchAfterAnotherHasReceivedAll) {
  RingSimulator simulator({.parallelism = 2}, 2);
  simulator.submit({.tenant = "before"}, 10'000, [](auto) { return milliseconds(1); });
  simulator.run_for(seconds(6));
  for (int i = 0; i < 50; ++i) {
    submit_short(simulator);
    simulator.run_for(milliseconds(5));
    const TenantView tenant = tenant_in(simulator, "short");
    ASSERT_EQ(tenant.share, 1);
    if (tenant.due == 0) continue;  // nothing has been served within this step of the sums
    ASSERT_NEAR(tenant.received, 1, 0.001) << i;
    ASSERT_NEAR(tenant.due, 1, 0.001) << i;
    simulator.run_for(milliseconds(395));
    ASSERT_EQ(tenant_in(simulator, "short").share, 0);
  }
  EXPECT_NEAR(tenant_in(simulator, "short").received, 1, 0.001);
  simulator.run_for(seconds(6));
  EXPECT_EQ(tenant_in(simulator, "short").received, 0) << "nothing was due for a while";
}

TEST(FairRingViewTest, TheTimeInWhichATenantHadNothingToRunIsNotHeldAgainstIt) {
  RingSimulator simulator({.parallelism = 2}, 2);
  simulator.submit({.tenant = "steady"}, 1'000'000, [](auto) { return milliseconds(1); });
  for (int i = 0; i < 50; ++i) {
    submit_short(simulator);
    simulator.run_for(milliseconds(200));
  }
  const TenantView brief = tenant_in(simulator, "short");
  EXPECT_NEAR(brief.due, 0.5, 0.01);
  EXPECT_NEAR(brief.received, 0.5, 0.1) << "of the tenth of the time in which it had something to run";
  const TenantView steady = tenant_in(simulator, "steady");
  EXPECT_NEAR(steady.due, 0.95, 0.01);
  EXPECT_NEAR(steady.received / steady.due, 1, 0.02);
}

TEST(FairRingViewTest, WhatIsDueFollowsTheWeights) {
  RingSimulator simulator({.parallelism = 2}, 2);
  for (const char* name : {"a", "b"}) {
    simulator.submit({.tenant = name}, 1'000'000, [](auto) { return milliseconds(1); });
  }
  simulator.run_for(seconds(30));
  EXPECT_NEAR(tenant_in(simulator, "a").due, 0.5, 0.001);
  simulator.ring.groups().set_tenant_weight("a", 3);
  simulator.run_for(seconds(5));
  const TenantView midway = tenant_in(simulator, "a");
  EXPECT_EQ(midway.share, 0.75);
  EXPECT_NEAR(midway.due, 0.66, 0.01) << "two thirds of the last seconds are weighed anew";
  EXPECT_NEAR(midway.received / midway.due, 1, 0.01);
}

TEST(FairRingViewTest, ALongJobCountsAsReceivedWhileItRuns) {
  RingSimulator simulator({.parallelism = 2}, 2);
  Batch& a = simulator.submit({.slots = 1}, 1'000'000, [](auto) { return milliseconds(1); });
  Batch& b = simulator.submit(1, std::chrono::minutes(10));
  simulator.run_for(std::chrono::minutes(2));
  EXPECT_NEAR(simulator.ring.view().queue(a.queue, simulator.now()).received, 0.5, 0.01);
  EXPECT_NEAR(simulator.ring.view().queue(b.queue, simulator.now()).received, 0.5, 0.01);
}

TEST(FairRingViewTest, TheDeepestAreFoundAmongManyThatAreNot) {
  FairRing ring({});
  std::vector<RingQueue> queues(5'000);
  for (std::size_t i = 0; i < queues.size(); ++i) {
    ring.attach(queues[i], {.tenant = i % 2 == 0 ? "a" : "b"}, nullptr);
    ring.add_jobs(queues[i], i == 17 ? 1'000 : i % 1'000 == 3 ? 100 + i / 1'000 : 1, kViewedAt);
  }
  RingSnapshot snapshot = ring.view().snapshot(4, kViewedAt);
  EXPECT_THAT(snapshot.deepest, testing::ElementsAre(1'000, 104, 103, 102));
  EXPECT_EQ(snapshot.active_queues, 5'000U);
  EXPECT_EQ(snapshot.queues, 5'000U);
  // Among very many of one depth it lists some.
  EXPECT_EQ(ring.view().snapshot(2'000, kViewedAt).deepest.size(), 1'024U);
  static_cast<void>(ring.cancel(queues[17], kViewedAt));
  ring.add_jobs(queues[18], 200, kViewedAt);
  snapshot = ring.view().snapshot(2, kViewedAt);
  EXPECT_THAT(snapshot.deepest, testing::ElementsAre(201, 104));
  EXPECT_EQ(snapshot.active_queues, 4'999U);
  ring.detach_all();
  snapshot = ring.view().snapshot(2, kViewedAt);
  EXPECT_TRUE(snapshot.deepest.empty());
  EXPECT_EQ(snapshot.active_queues, 0U);
}

TEST(FairRingViewTest, ExecutorsMayTakeTheMutexBetweenPagesOfTenants) {
  constexpr std::size_t kMany = FairRing::View::kTenantsAtOnce * 2;
  FairRing ring({});
  std::vector<RingQueue> queues(kMany + 1);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < kMany; ++i) {
    names.push_back("t" + std::to_string(1'000 + i));
    ring.attach(queues[i], {.tenant = names.back()}, nullptr);
  }
  std::vector<std::string> seen;
  ring.view().for_each_tenant(kViewedAt, [&](TenantView&& tenant) {
    // Another thread's change, which comes after the first page was read.
    if (seen.empty()) ring.attach(queues[kMany], {.tenant = "z"}, nullptr);
    seen.push_back(std::move(tenant.tenant));
  });
  names.emplace_back("z");
  EXPECT_EQ(seen, names);
  const RingSnapshot snapshot = ring.view().snapshot(0, kViewedAt);
  EXPECT_EQ(snapshot.tenants.size(), kMany + 1);
  EXPECT_EQ(snapshot.queues, kMany + 1);
  ring.detach_all();
}

TEST(FairRingViewTest, AheadOfVeryManyIsEstimated) {
  constexpr std::size_t kMany = 200'000;
  FairRing ring({});
  std::vector<RingQueue> queues(kMany);
  for (RingQueue& queue : queues) {
    ring.attach(queue, {}, nullptr);
    ring.add_jobs(queue, 1, kViewedAt);
  }
  EXPECT_EQ(ring.view().queue(queues.front(), kViewedAt).ahead, 0U);
  for (const std::size_t place : {kMany / 4, kMany / 2, kMany - 1}) {
    EXPECT_NEAR(static_cast<double>(ring.view().queue(queues[place], kViewedAt).ahead),
                static_cast<double>(place), 0.05 * kMany);
  }
  ring.detach_all();
}

TEST(FairRingViewTest, AheadIsWhoIsServedFirst) {
  FairRing ring({});
  std::vector<RingQueue> queues(10);
  for (RingQueue& queue : queues) {
    ring.attach(queue, {.cost_hint = milliseconds(1)}, nullptr);
    ring.add_jobs(queue, 100, kViewedAt);
  }
  for (int turn = 0; turn < 35; ++turn) {
    std::size_t first = 0;
    std::vector<std::uint64_t> ahead;
    for (std::size_t i = 0; i < queues.size(); ++i) {
      ahead.push_back(ring.view().queue(queues[i], kViewedAt).ahead);
      if (ahead.back() == 0) first = i;
    }
    EXPECT_THAT(ahead, testing::UnorderedElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
    const auto claim = ring.try_claim(kViewedAt);
    EXPECT_EQ(claim->queue, &queues[first]);
    (void)ring.settle(*claim->queue, {.charged = claim->charged, .actual = milliseconds(1), .executed = 1},
                      kViewedAt);
  }
  RingQueue other;
  ring.attach(other, {.tenant = "other", .cost_hint = milliseconds(1)}, nullptr);
  ring.add_jobs(other, 100, kViewedAt);
  EXPECT_LE(ring.view().queue(other, kViewedAt).ahead, 1U) << "one tenant has ten batches, but one turn";
  ring.detach_all();
}

}  // namespace
}  // namespace locksley::test

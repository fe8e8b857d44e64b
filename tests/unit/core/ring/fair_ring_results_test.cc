// Tenants whose account of results is full: they are passed over, and come back when they have
// room.
#include <gtest/gtest.h>

#include "core/base/result_account.h"
#include "core/ring/fair_ring.h"
#include "core/ring/fair_ring_groups.h"
#include "core/ring/fair_ring_view.h"

namespace locksley {
namespace {

class FairRingResultsTest : public testing::Test {
 protected:
  static constexpr Nanoseconds kNow{1'000};

  FairRingResultsTest() {
    full.set_limit(1);
    ring.attach(queue, {.tenant = "full", .results = &full}, nullptr);
    ring.attach(other, {.tenant = "other"}, nullptr);
    ring.add_jobs(queue, 10, kNow);
  }
  ~FairRingResultsTest() override { ring.detach_all(); }

  ResultAccount full;
  RingQueue queue;
  RingQueue other;
  FairRing ring{FairRing::Options{}};
};

TEST_F(FairRingResultsTest, NothingOfAFullAccountIsClaimed) {
  full.charge(1);
  EXPECT_TRUE(ring.hints().has_work());
  EXPECT_FALSE(ring.try_claim(kNow));
  EXPECT_FALSE(ring.hints().has_work()) << "a worker would look again and again";
  EXPECT_TRUE(ring.view().queue(queue, kNow).results_at_limit);
  EXPECT_FALSE(ring.view().queue(queue, kNow).waiting);
  EXPECT_EQ(ring.view().queue(queue, kNow).queued, 10U);
}

TEST_F(FairRingResultsTest, OtherTenantsAreServed) {
  full.charge(1);
  ring.add_jobs(other, 1, kNow);
  const auto claim = ring.try_claim(kNow);
  ASSERT_TRUE(claim);
  EXPECT_EQ(claim->queue, &other);
  EXPECT_EQ(ring.view().queue(other, kNow).share, 1) << "who may not start has no share";
  (void)ring.settle(other, {.charged = claim->charged, .executed = 1}, kNow);
}

TEST_F(FairRingResultsTest, TheAccountIsThatOfAllCustomersOfTheTenant) {
  RingQueue named;
  ring.attach(named, {.tenant = "full", .customer = "named", .results = &full}, nullptr);
  ring.add_jobs(named, 10, kNow);
  full.charge(1);
  EXPECT_FALSE(ring.try_claim(kNow));
  EXPECT_FALSE(ring.hints().has_work());
  for (const RingQueue* each : {&named, &queue}) EXPECT_TRUE(ring.view().queue(*each, kNow).results_at_limit);
  // The first customer with a name may come while the tenant is shut.
  RingQueue late;
  ring.attach(late, {.tenant = "full", .customer = "late", .results = &full}, nullptr);
  ring.add_jobs(late, 10, kNow);
  EXPECT_FALSE(ring.hints().has_work());
  full.refund(1);
  EXPECT_TRUE(ring.groups().reopen_tenants());
  EXPECT_TRUE(ring.hints().has_work());
  ring.detach_all();
}

TEST_F(FairRingResultsTest, RoomOpensTheTenantAgain) {
  full.charge(1);
  EXPECT_FALSE(ring.try_claim(kNow));
  EXPECT_FALSE(ring.groups().reopen_tenants()) << "it is full";
  EXPECT_FALSE(ring.hints().has_work());
  full.refund(1);
  const auto arrivals = ring.hints().arrivals();
  EXPECT_TRUE(ring.groups().reopen_tenants());
  EXPECT_NE(ring.hints().arrivals(), arrivals);
  EXPECT_FALSE(ring.groups().reopen_tenants());
  EXPECT_TRUE(ring.hints().has_work());
  const auto claim = ring.try_claim(kNow);
  ASSERT_TRUE(claim);
  EXPECT_EQ(claim->queue, &queue);
  (void)ring.settle(queue, {.charged = claim->charged, .executed = 0, .left = claim->range}, kNow);
}

TEST_F(FairRingResultsTest, AShutTenantTakesJobsAndSettlements) {
  const auto claim = ring.try_claim(kNow, ClaimFilter::kAny, 1);
  ASSERT_TRUE(claim);
  full.charge(1);
  EXPECT_FALSE(ring.try_claim(kNow));
  ring.add_jobs(queue, 10, kNow);
  EXPECT_FALSE(ring.hints().has_work());
  (void)ring.settle(queue, {.charged = claim->charged, .executed = 0, .left = claim->range}, kNow);
  EXPECT_FALSE(ring.hints().has_work());
  EXPECT_EQ(ring.view().queue(queue, kNow).queued, 20U);
  EXPECT_EQ(ring.cancel(queue, kNow).size(), 1U);
  full.refund(1);
  EXPECT_FALSE(ring.groups().reopen_tenants()) << "the tenant has left with its last queue";
}

TEST_F(FairRingResultsTest, ATenantThatLeftWhileItWasShutComesBackOpen) {
  full.charge(1);
  EXPECT_FALSE(ring.try_claim(kNow));
  (void)ring.cancel(queue, kNow);
  ring.attach(queue, {.tenant = "full"}, nullptr);
  ring.add_jobs(queue, 1, kNow);
  EXPECT_TRUE(ring.hints().has_work());
}

}  // namespace
}  // namespace locksley

// Gates that local and remote executors share: who may claim, up to which number, and what hints
// say.
#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <map>
#include <optional>
#include <string>

#include "core/ring/fair_ring.h"
#include "core/ring/fair_ring_gates.h"
#include "core/ring/fair_ring_leases.h"
#include "tests/support/ring_simulator.h"

namespace locksley {
namespace {

using std::chrono::milliseconds;

class FairRingSitesTest : public ::testing::Test {
 protected:
  ~FairRingSitesTest() override {
    while (!turns.empty()) settle();
    ring.detach_all();
  }

  RingQueue& enter(GateId gate, const std::string& tenant = "a") {
    RingQueue& queue = queues.emplace_back();
    ring.attach(queue, {.tenant = tenant, .cost_hint = milliseconds(1), .gate = gate}, nullptr);
    ring.add_jobs(queue, 1'000'000, now);
    return queue;
  }
  std::optional<Claim> claim(Site site, std::uint32_t width = 1, const GateSet* gates = nullptr) {
    const auto claimed =
        ring.try_claim(now, ClaimRequest{.most = width, .width = width, .gates = gates, .site = site});
    if (claimed) turns.push_back(*claimed);
    return claimed;
  }
  // How many claims succeed one after the other.
  int claims(Site site) {
    int count = 0;
    while (count < 20 && claim(site)) ++count;
    return count;
  }
  // The oldest turn ends.
  void settle() {
    const Claim turn = turns.front();
    turns.pop_front();
    now += milliseconds(1);
    (void)ring.settle(*turn.queue,
                      {.charged = turn.charged,
                       .actual = milliseconds(1) * turn.charged.width(),
                       .executed = turn.range.size()},
                      now);
  }

  Nanoseconds now{};
  FairRing ring{{.parallelism = 8}};
  std::deque<RingQueue> queues;
  std::deque<Claim> turns;
};

TEST_F(FairRingSitesTest, ConcurrencyBoundsLocalExecutorsOnly) {
  const GateId gate = *ring.gates().add({.concurrency = 2, .is_remote = true});
  enter(gate);
  EXPECT_TRUE(claim(Site::kRemote, 3));
  EXPECT_EQ(claims(Site::kLocal), 2);
  EXPECT_FALSE(ring.hints().has_work());
  EXPECT_TRUE(ring.hints().has_remote_work());
  EXPECT_TRUE(claim(Site::kRemote, 3));
  settle();
  EXPECT_FALSE(claim(Site::kLocal)) << "a remote turn has ended";
  settle();
  EXPECT_TRUE(ring.hints().has_work());
  EXPECT_TRUE(claim(Site::kLocal));
}

TEST_F(FairRingSitesTest, MaxRunningBoundsAllTogether) {
  const GateId gate = *ring.gates().add({.max_running = 5, .is_remote = true});
  enter(gate);
  EXPECT_EQ(claim(Site::kRemote, 3)->charged.width(), 3U);
  EXPECT_TRUE(claim(Site::kLocal));
  EXPECT_EQ(claim(Site::kRemote, 3)->charged.width(), 1U) << "one place is left";
  EXPECT_FALSE(claim(Site::kRemote));
  EXPECT_FALSE(claim(Site::kLocal));
  EXPECT_FALSE(ring.hints().has_work() || ring.hints().has_remote_work());
  ring.gates().set_max_running(gate, 6);
  EXPECT_TRUE(ring.hints().has_work() && ring.hints().has_remote_work());
  ring.gates().set_max_running(gate, 0);
  EXPECT_EQ(claims(Site::kLocal), 20);
}

TEST_F(FairRingSitesTest, RemoteExecutorsNeedAGateThatIsTheirs) {
  const GateId gate = *ring.gates().add({.is_on = false});
  enter(gate);
  EXPECT_FALSE(claim(Site::kRemote));
  EXPECT_FALSE(ring.hints().has_remote_work());
  const std::uint64_t before = ring.hints().arrivals();
  ring.gates().set_remote(gate, true);
  EXPECT_EQ(ring.hints().arrivals(), before + 1);
  EXPECT_TRUE(ring.hints().has_remote_work(GateSet(gate)));
  EXPECT_FALSE(ring.hints().has_remote_work(GateSet(0)));
  EXPECT_FALSE(ring.hints().has_work());
  EXPECT_FALSE(claim(Site::kLocal));
  EXPECT_TRUE(claim(Site::kRemote));
  ring.gates().set_remote(gate, false);
  EXPECT_FALSE(claim(Site::kRemote));
}

TEST_F(FairRingSitesTest, OfAHeldGateJobsAreOnlyReclaimed) {
  const GateId gate = *ring.gates().add({.is_remote = true});
  RingQueue& queue = enter(gate);
  RingQueue& other = enter(0);
  ring.gates().set_hold(gate, true);
  EXPECT_FALSE(claim(Site::kRemote));
  EXPECT_EQ(claim(Site::kLocal)->queue, &other);
  const auto reclaimed = ring.leases().reclaim(queue, {3, 5}, 1, now);
  ASSERT_TRUE(reclaimed);
  EXPECT_EQ(reclaimed->charged.site(), Site::kRemote);
  turns.push_back({.queue = &queue, .range = {3, 5}, .charged = reclaimed->charged});
  ring.gates().set_hold(gate, false);
  EXPECT_EQ(claim(Site::kRemote)->queue, &queue);
}

TEST_F(FairRingSitesTest, AWideTurnTakesAsManyPlacesOfItsGateAndGivesThemBack) {
  const GateId gate = *ring.gates().add({.concurrency = 3});
  enter(gate);
  EXPECT_EQ(claim(Site::kLocal, 5)->charged.width(), 3U);
  EXPECT_FALSE(claim(Site::kLocal));
  settle();
  EXPECT_EQ(claims(Site::kLocal), 3);
}

// Ten remote and two local executors. Nobody who waits for remote ones only is passed over by those
// that wait for local ones, nor the other way round.
TEST_F(FairRingSitesTest, TimeIsSharedOverBothKindsOfExecutors) {
  const GateId here = *ring.gates().add({.concurrency = 2});
  const GateId both = *ring.gates().add({.concurrency = 2, .is_remote = true});
  ring.set_remote_parallelism(10);
  std::map<const RingQueue*, int> turns_of;
  const RingQueue& local = enter(here, "local");
  const RingQueue& one = enter(both, "one");
  const RingQueue& two = enter(both, "two");
  const auto fill = [&] {
    std::map<Site, int> running;
    for (const Claim& turn : turns) ++running[turn.charged.site()];
    for (const auto& [site, places] : {std::pair(Site::kLocal, 2), std::pair(Site::kRemote, 10)}) {
      for (int i = running[site]; i < places; ++i) {
        const auto claimed = claim(site);
        ASSERT_TRUE(claimed);
        ++turns_of[claimed->queue];
      }
    }
  };
  for (int i = 0; i < 12'000; ++i) {
    fill();
    settle();
  }
  // Of twelve executors two are all that `local` can have, which is less than its share.
  EXPECT_NEAR(turns_of[&local], 2'000, 40);
  EXPECT_NEAR(turns_of[&one], 5'000, 60);
  EXPECT_NEAR(turns_of[&two], 5'000, 60);
}

// A batch waits for remote executors, none of which comes: it holds back the virtual time for as
// long as it waits. Local executors share their time all the same, whatever the lengths of the jobs
// at their gates.
class FairRingReachTest : public ::testing::Test {
 protected:
  using Simulator = test::RingSimulator;

  struct Names {
    std::string tenant;
    std::string customer;
  };
  // What long jobs get in a minute, as a part of what short ones get. `most_long`: executors at
  // their gate; 0: any.
  double long_by_short(const Names& waiting, const Names& with_long, const Names& with_short,
                       std::uint32_t most_long = 0) {
    Simulator simulator({.parallelism = 2}, 2);
    auto gates = simulator.ring.gates();
    const GateId away = *gates.add({.is_on = false, .is_remote = true});
    const GateId longs = *gates.add({.concurrency = most_long});
    const GateId shorts = *gates.add({});
    const auto submit = [&](const Names& names, GateId gate, std::uint64_t jobs, milliseconds each) -> auto& {
      return simulator.submit({.tenant = names.tenant, .customer = names.customer, .gate = gate}, jobs,
                              test::always(each));
    };
    submit(waiting, away, 1, milliseconds(1));
    Simulator::Batch& long_jobs = submit(with_long, longs, test::kEndless, milliseconds(1000));
    Simulator::Batch& short_jobs = submit(with_short, shorts, test::kEndless, milliseconds(10));
    simulator.run_for(std::chrono::minutes(1));
    const Nanoseconds at = simulator.now();
    EXPECT_EQ(long_jobs.received(at) + short_jobs.received(at), std::chrono::minutes(2))
        << "no worker rested";
    return static_cast<double>(long_jobs.received(at).count()) /
           static_cast<double>(short_jobs.received(at).count());
  }
};

TEST_F(FairRingReachTest, ATenantThatWaitsForOtherExecutorsStarvesNoTenant) {
  EXPECT_NEAR(long_by_short({"waits", ""}, {"long", ""}, {"short", ""}), 1, 0.1);
}

TEST_F(FairRingReachTest, ACustomerThatWaitsForOtherExecutorsStarvesNoCustomer) {
  EXPECT_NEAR(long_by_short({"shop", "waits"}, {"shop", "long"}, {"shop", "short"}), 1, 0.1);
}

TEST_F(FairRingReachTest, ABatchThatWaitsForOtherExecutorsStarvesNoBatch) {
  EXPECT_NEAR(long_by_short({"shop", ""}, {"shop", ""}, {"shop", ""}), 1, 0.1);
}

TEST_F(FairRingReachTest, AGateThatClosesAfterEachClaimGetsItsShareToo) {
  EXPECT_NEAR(long_by_short({"waits", ""}, {"long", ""}, {"short", ""}, 1), 1, 0.1);
}

TEST_F(FairRingSitesTest, RemoteExecutorsThatLeaveShareNoJobsAnyMore) {
  RingQueue& queue = queues.emplace_back();
  ring.attach(queue, {.cost_hint = std::chrono::microseconds(10)}, nullptr);
  ring.add_jobs(queue, 160, now);
  ring.set_remote_parallelism(24);
  ring.set_remote_parallelism(8);
  turns.push_back(*ring.try_claim(now));
  EXPECT_EQ(turns.back().range.size(), 10U)
      << "a part for each of the eight here and the eight that are left";
}

}  // namespace
}  // namespace locksley

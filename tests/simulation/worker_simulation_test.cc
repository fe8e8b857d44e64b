// The links of both sides, with delay, loss, pauses, partitions, restarts and slow machines between
// them. LOCKSLEY_SEED repeats a run. LOCKSLEY_SIMULATE is how many times as many faults there are:
// 1 unless given.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/lane/lane_groups.h"
#include "core/lane/lane_view.h"
#include "tests/simulation/fleet.h"
#include "tests/support/seed.h"

namespace locksley::daemon::simulation {
namespace {

using namespace std::chrono_literals;

std::uint64_t scale() {
  const char* const given = std::getenv("LOCKSLEY_SIMULATE");
  return given == nullptr ? 1 : std::max(1ULL, std::strtoull(given, nullptr, 10));
}

std::vector<std::string> some_handlers(Fleet& fleet) {
  std::vector<std::string> handlers;
  for (const char* const name : {"a", "b", "c"}) {
    if (fleet.up_to(1) == 0) handlers.emplace_back(name);
  }
  return handlers.empty() ? std::vector<std::string>{"a", "b", "c"} : handlers;
}

// Jobs of 10 us to an hour, in batches that together keep the fleet busy for some seconds.
void submit_some(Fleet& fleet, std::uint32_t slots) {
  static constexpr Nanoseconds kCosts[] = {10us, 100us, 1ms, 10ms, 100ms, 1s, 10s, 100s, 1h};
  for (int i = 0; i < 12; ++i) {
    BatchPlan plan;
    plan.handler = std::string(1, static_cast<char>('a' + fleet.up_to(2)));
    plan.tenant = std::string(1, static_cast<char>('x' + fleet.up_to(2)));
    plan.cost = kCosts[fleet.up_to(std::size(kCosts) - 1)];
    const auto busy = static_cast<std::uint64_t>(1s * slots / plan.cost);
    plan.jobs = std::clamp<std::uint64_t>(fleet.up_to(2 * busy), 1, 20'000);
    if (fleet.up_to(3) == 0) plan.slots = static_cast<std::uint32_t>(1 + fleet.up_to(7));
    if (fleet.up_to(3) == 0) plan.timeout = std::chrono::milliseconds(1 + 3 * plan.cost / 1ms);
    fleet.owner().submit(std::move(plan));
  }
}

// One fleet in a time of faults, and after it.
void survive(std::uint64_t seed, Owner::Totals& totals, std::uint64_t& faults) {
  SCOPED_TRACE("fleet of seed " + std::to_string(seed));
  Fleet fleet(seed, {.lease = 3s});
  std::uint32_t slots = 0;
  const std::uint64_t machines = 2 + fleet.up_to(20);
  for (std::uint64_t i = 0; i < machines; ++i) {
    const auto of_this = static_cast<std::uint32_t>(1 + fleet.up_to(7));
    slots += of_this;
    fleet.add_machine(of_this, 10us + 100us * fleet.up_to(500),
                      i == 0 ? std::vector<std::string>{"a", "b", "c"} : some_handlers(fleet));
  }
  submit_some(fleet, slots);
  fleet.begin_faults(30ms);
  fleet.run_for(5s);
  submit_some(fleet, slots);
  fleet.run_for(5s);
  fleet.stop_faults();
  ASSERT_TRUE(fleet.finish(240h)) << "a job was lost: neither queued, nor leased, nor recorded";
  EXPECT_EQ(fleet.owner().disk().recorded_twice(), 0U);
  // What is on its way still comes, to no effect.
  fleet.run_for(60s);
  EXPECT_EQ(fleet.owner().disk().recorded_twice(), 0U);
  EXPECT_EQ(fleet.owner().link().stats().leases, 0U);
  for (const char* const handler : {"a", "c"}) {
    const RingSnapshot ring = fleet.owner().lane(handler).view().snapshot(0);
    EXPECT_EQ(ring.queued + ring.claimed + ring.executors, 0U);
  }
  const Owner::Totals of_this = fleet.owner().totals();
  totals.claims += of_this.claims;
  totals.lost += of_this.lost;
  totals.timed_out += of_this.timed_out;
  totals.cuts += of_this.cuts;
  totals.yielded += of_this.yielded;
  totals.reclaimed += of_this.reclaimed;
  faults += fleet.faults();
}

TEST(WorkerSimulation, NoFaultLosesAJobOrRecordsItTwice) {
  std::mt19937_64 random = locksley::testing::stress_random(1);
  Owner::Totals totals;
  std::uint64_t faults = 0;
  // Until everything that can happen has happened.
  const auto has_seen_all = [&] { return totals.lost != 0 && totals.reclaimed != 0 && totals.cuts != 0; };
  while ((faults < 500 * scale() || (faults < 10'000 && !has_seen_all())) && !::testing::Test::HasFailure())
    survive(random(), totals, faults);
  std::printf(
      "%llu faults, %llu claims, %llu lost jobs, %llu time-outs, %llu cuts, %llu jobs yielded, %llu "
      "reclaimed\n",
      static_cast<unsigned long long>(faults), static_cast<unsigned long long>(totals.claims),
      static_cast<unsigned long long>(totals.lost), static_cast<unsigned long long>(totals.timed_out),
      static_cast<unsigned long long>(totals.cuts), static_cast<unsigned long long>(totals.yielded),
      static_cast<unsigned long long>(totals.reclaimed));
  EXPECT_TRUE(has_seen_all());
}

// Tenants with jobs of very different lengths, on machines of which some are slow: over ten minutes
// each gets what is due to it within 2%.
TEST(WorkerSimulation, SharesAreDueWithinTwoPercentOverTenMinutes) {
  std::mt19937_64 random = locksley::testing::stress_random(2);
  Fleet fleet(random());
  constexpr std::uint32_t kMachines = 6, kSlots = 6;
  for (std::uint32_t i = 0; i < kMachines; ++i)
    fleet.add_machine(kSlots, 100us * (1 + i), {"a", "b", "c"}, i % 4 == 0 ? 3 : 1);
  const std::map<std::string, std::pair<std::uint32_t, Nanoseconds>> tenants = {
      {"one", {1, 20ms}}, {"two", {2, 200ms}}, {"four", {4, 2s}}};
  for (const auto& [tenant, what] : tenants) {
    const auto jobs = static_cast<std::uint64_t>(1'000s * kMachines * kSlots / what.second);
    fleet.owner().lane("a").groups().set_tenant_weight(tenant, what.first);
    fleet.owner().submit({.handler = "a", .tenant = tenant, .jobs = jobs, .cost = what.second});
  }
  fleet.run_for(30s);
  std::map<std::string, Nanoseconds> before;
  for (const auto& [tenant, what] : tenants) before[tenant] = fleet.owner().received("a", tenant);
  for (int i = 0; i < 60; ++i) {
    fleet.run_for(10s);
    // The bound of core/FAIRNESS.md: two leases a slot are executors; the longest turn is a quantum
    // and the longest job of `four` on a slow machine.
    const auto share_of = [&](const std::string& tenant) {
      const Nanoseconds received = fleet.owner().received("a", tenant) - before[tenant];
      return received / tenants.at(tenant).first;
    };
    const auto [least, most] = std::minmax({share_of("one"), share_of("two"), share_of("four")});
    EXPECT_LE(most - least, 3 * 2 * kMachines * kSlots * (1s + 3 * 3s) / 4);
  }
  const double all = 600e9 * kMachines * kSlots;
  double sum = 0;
  for (const auto& [tenant, what] : tenants) {
    const auto received = static_cast<double>((fleet.owner().received("a", tenant) - before[tenant]).count());
    const double due = all * what.first / 7;
    EXPECT_NEAR(received / due, 1, 0.02) << tenant;
    std::printf("%s: %.4f of what is due\n", tenant.c_str(), received / due);
    sum += received;
  }
  EXPECT_GT(sum, 0.98 * all) << "slots were idle though jobs were queued";
}

// How long slots are idle that have nothing to do, while a lease of another machine is worth a cut.
TEST(WorkerSimulation, NoSlotIsIdleForLongWhileALeaseIsWorthACut) {
  std::mt19937_64 random = locksley::testing::stress_random(3);
  Fleet fleet(random());
  constexpr Nanoseconds kDelay = 10ms;
  for (int i = 0; i < 6; ++i) fleet.add_machine(4, kDelay, {"a"}, i == 0 ? 20 : 1);
  for (int i = 0; i < 40; ++i) {
    fleet.owner().submit(
        {.handler = "a", .jobs = 1 + fleet.up_to(3'000), .cost = 1ms + 1ms * fleet.up_to(20)});
  }
  const auto is_worth_a_cut = [&] {
    for (const auto& [id, worker] : fleet.owner().link().workers()) {
      for (const auto& [number, out] : worker.leases) {
        const Nanoseconds to_go = worker.times_to_go(fleet.clock().now())[out->occupation.first];
        // Twice the threshold, since what jobs will take is a guess that each of them changes.
        const Nanoseconds worth = 2 * (2 * worker.quantum() + 10 * worker.round_trip.mean());
        if (to_go > worth && out->middle() && !out->orders.is_cut()) return true;
      }
    }
    return false;
  };
  // How long at most a machine has met a condition, while there was something to cut.
  struct Wait {
    std::map<std::uint64_t, Nanoseconds> since;
    Nanoseconds longest{0};
    void look(std::uint64_t id, bool waits, Nanoseconds now) {
      if (!waits) {
        since.erase(id);
      } else {
        longest = std::max(longest, now - since.try_emplace(id, now).first->second);
      }
    }
  };
  Wait claims;  // its CLAIM is for an idle slot
  Wait idles;   // it has an idle slot, which its CLAIM may not name yet
  std::uint64_t looks = 0;
  while (!fleet.owner().all_over() && ++looks < 2'000'000) {
    fleet.run_for(1ms);
    const bool is_worth = is_worth_a_cut();
    for (const auto& [id, worker] : fleet.owner().link().workers()) {
      const bool waits = is_worth && worker.waiting;
      claims.look(id, waits && worker.waits_idle(), fleet.clock().now());
      idles.look(id, waits && worker.slots.idle() != 0, fleet.clock().now());
    }
  }
  ASSERT_TRUE(fleet.owner().all_over());
  EXPECT_GT(fleet.owner().totals().cuts, 0U);
  EXPECT_LE(claims.longest, 4 * kDelay) << "two round trips";
  // As daemon/workers/README.md says; the loop above looks once a millisecond.
  constexpr Nanoseconds kBetweenSearches = 10ms, kLook = 1ms;
  EXPECT_LE(idles.longest, kBetweenSearches + 4 * kDelay + kLook);
  std::printf("%lld us idle at most, %lld us with a CLAIM, %llu cuts\n",
              static_cast<long long>(idles.longest / 1us), static_cast<long long>(claims.longest / 1us),
              static_cast<unsigned long long>(fleet.owner().totals().cuts));
}

// A machine hears that its connection is broken, and the owner does not: the machine goes on with
// its jobs, and each of them runs once.
TEST(WorkerSimulation, AMachineKeepsItsJobsThoughTheOwnerDoesNotLearnThatItHasReconnected) {
  std::mt19937_64 random = locksley::testing::stress_random(5);
  Fleet fleet(random(), {.lease = 3s});
  constexpr std::uint64_t kJobs = 400;
  for (int i = 0; i < 3; ++i) fleet.add_machine(4, 1ms, {"a"});
  fleet.owner().submit({.handler = "a", .jobs = kJobs, .cost = 1s});
  fleet.run_for(2s);
  for (int i = 0; i < 60; ++i) {
    Machine& machine = fleet.machine(fleet.up_to(2));
    if (machine.wire() != nullptr) machine.wire()->reset(Wire::End::kMachine);
    fleet.run_for(100ms + 1ms * fleet.up_to(300));
  }
  ASSERT_TRUE(fleet.finish(1h));
  std::uint64_t executions = 0;
  for (std::size_t i = 0; i < fleet.size(); ++i) executions += fleet.machine(i).executions();
  EXPECT_EQ(executions, kJobs);
  EXPECT_EQ(fleet.owner().totals().lost, 0U);
  EXPECT_GT(fleet.owner().totals().reclaimed, 60U);
  EXPECT_EQ(fleet.owner().disk().recorded_twice(), 0U);
}

// A thousand machines of 64 slots: a batch is spread over all of them, and none waits for the
// others.
TEST(WorkerSimulation, AThousandMachinesShareABatch) {
  std::mt19937_64 random = locksley::testing::stress_random(4);
  Fleet fleet(random());
  constexpr std::uint32_t kSlots = 64;
  const std::uint32_t machines = scale() == 1 ? 50 : 1'000;
  for (std::uint32_t i = 0; i < machines; ++i) fleet.add_machine(kSlots, 1ms, {"a"});
  fleet.owner().submit({.handler = "a", .jobs = 3ULL * machines * kSlots, .cost = 60s});
  fleet.run_for(2s);
  EXPECT_EQ(fleet.owner().lane("a").view().snapshot(0).executors, 2 * machines * kSlots);
  std::size_t idle = 0;
  for (const auto& [id, worker] : fleet.owner().link().workers()) idle += worker.slots.idle();
  EXPECT_EQ(idle, 0U);
  fleet.begin_faults(1s);
  fleet.run_for(60s);
  fleet.stop_faults();
  ASSERT_TRUE(fleet.finish(24h));
  EXPECT_EQ(fleet.owner().disk().recorded_twice(), 0U);
}

}  // namespace
}  // namespace locksley::daemon::simulation

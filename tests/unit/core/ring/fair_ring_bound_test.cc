// The bound of core/FAIRNESS.md, and conservation, in random runs. LOCKSLEY_SEED repeats one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/ring/fair_ring_gates.h"
#include "core/ring/fair_ring_groups.h"
#include "core/ring/fair_ring_view.h"
#include "tests/support/pair_watch.h"
#include "tests/support/ring_simulator.h"

namespace locksley::test {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using Batch = RingSimulator::Batch;

// One thing that may happen while the ring works: another batch, a pause, or more jobs.
template <class Submit>
void disturb(RingSimulator& simulator, Random& random, const Submit& submit) {
  Batch& batch = *simulator.batches()[up_to(random, simulator.batches().size() - 1)];
  switch (up_to(random, 7)) {
    case 0:
      if (simulator.batches().size() < 10) submit();
      break;
    case 1:
      simulator.ring.pause(batch.queue, simulator.now());
      simulator.on_step();
      break;
    case 2:
    case 3:
      simulator.ring.resume(batch.queue, simulator.now());
      simulator.on_step();
      break;
    default:
      simulator.add(batch, up_to(random, 1) == 0 ? 1 + up_to(random, 3) : up_to(random, 300));
  }
}

TEST(FairRingBoundTest, NoTwoThatWaitDriftApartByMoreThanTheBound) {
  const std::uint64_t first_seed = base_seed();
  double worst_queues = 0, worst_tenants = 0;
  std::uint64_t looks = 0;
  for (std::uint64_t seed = first_seed; seed < first_seed + 60; ++seed) {
    SCOPED_TRACE("LOCKSLEY_SEED=" + std::to_string(seed));
    Random random(seed);
    const auto workers = static_cast<std::uint32_t>(1 + up_to(random, 7));
    FairRing::Options options{.quantum = microseconds(200 + up_to(random, 2000)), .parallelism = workers};
    if (up_to(random, 1) == 0) options.set_back_at = 20'000'000;
    RingSimulator simulator(options, workers);
    simulator.thieves = up_to(random, 1) == 0;
    if (up_to(random, 1) == 0) simulator.use_leases();
    std::vector<std::string> tenant_of;
    std::map<std::string, std::uint32_t> tenant_weights;
    for (const char* tenant : {"a", "b", "c"}) {
      tenant_weights[tenant] = static_cast<std::uint32_t>(1 + up_to(random, 9));
      simulator.ring.groups().set_tenant_weight(tenant, tenant_weights[tenant]);
    }
    // Gates without a limit change nothing.
    const std::uint64_t gates = up_to(random, 3);
    for (std::uint64_t i = 0; i < gates; ++i) simulator.ring.gates().add({});
    const auto submit = [&] {
      tenant_of.emplace_back(1, static_cast<char>('a' + up_to(random, 2)));
      QueueOptions queue{.tenant = tenant_of.back(),
                         .weight = static_cast<std::uint32_t>(1 + up_to(random, 9)),
                         .gate = static_cast<GateId>(up_to(random, gates))};
      if (up_to(random, 3) == 0) queue.slots = static_cast<std::uint32_t>(1 + up_to(random, 3));
      if (up_to(random, 2) == 0) queue.cost_hint = microseconds(up_to(random, 5000));
      simulator.submit(queue, up_to(random, 400), random_cost(random), true);
    };
    PairWatch<std::pair<std::string, Batch*>> queues(simulator.executors());
    PairWatch<std::string> tenants(simulator.executors());
    simulator.on_step = [&] {
      std::map<std::string,
               std::map<std::pair<std::string, Batch*>, PairWatch<std::pair<std::string, Batch*>>::State>>
          by_tenant;
      std::map<std::string, PairWatch<std::string>::State> tenant_states;
      for (std::size_t i = 0; i < simulator.batches().size(); ++i) {
        Batch& batch = *simulator.batches()[i];
        const std::string& name = tenant_of[i];
        const bool waiting = simulator.ring.view().queue(batch.queue, simulator.now()).waiting;
        const Nanoseconds received = batch.received(simulator.now());
        by_tenant[name][{name, &batch}] = {waiting, received, batch.longest_turn, batch.weight,
                                           batch.running};
        auto& tenant =
            tenant_states.try_emplace(name, false, Nanoseconds{0}, Nanoseconds{0}, tenant_weights[name], 0U)
                .first->second;
        tenant.waiting |= waiting;
        tenant.received += received;
        tenant.running += batch.running;
        tenant.longest_turn = std::max(tenant.longest_turn, batch.longest_turn);
      }
      for (const auto& [name, states] : by_tenant) queues.look(states);
      tenants.look(tenant_states);
    };
    for (int i = 0; i < 6; ++i) submit();
    for (int i = 0; i < 200; ++i) {
      simulator.run_for(microseconds(up_to(random, 8000)));
      disturb(simulator, random, submit);
    }
    ASSERT_LE(queues.worst(), 1.0) << "queues of one tenant";
    ASSERT_LE(tenants.worst(), 1.0) << "tenants";
    worst_queues = std::max(worst_queues, queues.worst());
    worst_tenants = std::max(worst_tenants, tenants.worst());
    looks += queues.looks() + tenants.looks();
  }
  RecordProperty("worst_queues_of_bound", std::to_string(worst_queues));
  RecordProperty("worst_tenants_of_bound", std::to_string(worst_tenants));
  std::printf("LOCKSLEY_SEED=%llu: %llu pairs looked at; worst, of the bound: queues %.2f, tenants %.2f\n",
              static_cast<unsigned long long>(first_seed), static_cast<unsigned long long>(looks),
              worst_queues, worst_tenants);
  EXPECT_GT(looks, 100'000U);
}

constexpr GateId kGates = 4;

void disturb_gates(FairRing& ring, Random& random) {
  const auto gate = static_cast<GateId>(up_to(random, kGates - 1));
  switch (up_to(random, 2)) {
    case 0:
      return ring.gates().set_switch(gate, up_to(random, 1) == 0);
    case 1:
      return ring.gates().set_concurrency(gate, static_cast<std::uint32_t>(up_to(random, 4)));
    default:
      return ring.gates().set_start_cost(gate, microseconds(up_to(random, 1) * up_to(random, 5000)));
  }
}

void disturb_limits(FairRing& ring, Random& random, Nanoseconds now) {
  GroupLimits limits{.weight = static_cast<std::uint32_t>(up_to(random, 9))};
  if (up_to(random, 1) == 0) limits.slots = static_cast<std::uint32_t>(up_to(random, 4));
  if (up_to(random, 2) == 0) limits.start_interval = microseconds(up_to(random, 2'000));
  const std::string tenant(1, static_cast<char>('a' + up_to(random, 4)));
  if (up_to(random, 2) == 0) return ring.groups().set_tenant_limits(tenant, limits, now);
  ring.groups().set_customer_limits(
      tenant, std::string(up_to(random, 1), static_cast<char>('x' + up_to(random, 2))), limits, now);
}

void open_gates(FairRing& ring) {
  for (GateId gate = 0; gate < kGates; ++gate) {
    ring.gates().set_switch(gate, true);
    ring.gates().set_concurrency(gate, 0);
  }
}

void expect_empty_gates(FairRing& ring, const RingSnapshot& snapshot) {
  for (const GateView& gate : snapshot.gates) {
    ASSERT_EQ(gate.queued + gate.executors + gate.queues + gate.active_queues, 0U);
    ASSERT_FALSE(ring.hints().has_work(GateSet(gate.gate)));
    ASSERT_EQ(ring.gates().remove(gate.gate), gate.gate != 0);
  }
}

void disturb_batch(RingSimulator& simulator, Batch& batch, Random& random) {
  const Nanoseconds now = simulator.now();
  switch (up_to(random, 11)) {
    case 11:
      disturb_limits(simulator.ring, random, now);
      break;
    case 10:
      disturb_gates(simulator.ring, random);
      break;
    case 0:
      simulator.ring.pause(batch.queue, now);
      break;
    case 1:
      simulator.ring.resume(batch.queue, now);
      break;
    case 2:
      simulator.ring.set_slots(batch.queue, static_cast<std::uint32_t>(up_to(random, 3)), now);
      break;
    case 3:
      simulator.ring.set_weight(batch.queue, static_cast<std::uint32_t>(up_to(random, 1000)));
      break;
    case 4:
      simulator.ring.groups().set_tenant_weight(std::string(1, static_cast<char>('a' + up_to(random, 4))),
                                                static_cast<std::uint32_t>(up_to(random, 1000)));
      break;
    case 5:
      simulator.ring.close(batch.queue, now);
      break;
    case 6:
      if (up_to(random, 5) == 0) simulator.cancel(batch);
      break;
    default:
      simulator.add(batch, up_to(random, 200));
  }
}

// A customer that is kept for its rate is forgotten when a batch of its tenant leaves after that.
void forget_rates(RingSimulator& simulator) {
  simulator.run_for(std::chrono::seconds(1));
  for (const TenantView& tenant : simulator.ring.view().snapshot(0, simulator.now()).tenants)
    simulator.submit({.tenant = tenant.tenant, .customer = "last"}, 1, always(microseconds(1)));
  simulator.run();
}

TEST(FairRingBoundTest, EveryIndexIsRunOnceWhateverHappens) {
  const std::uint64_t first_seed = base_seed();
  std::printf("LOCKSLEY_SEED=%llu\n", static_cast<unsigned long long>(first_seed));
  for (std::uint64_t seed = first_seed; seed < first_seed + 60; ++seed) {
    SCOPED_TRACE("LOCKSLEY_SEED=" + std::to_string(seed));
    Random random(seed);
    const auto workers = static_cast<std::uint32_t>(1 + up_to(random, 7));
    FairRing::Options options{.share = up_to(random, 3) == 0 ? Share::kJobs : Share::kTime,
                              .parallelism = workers};
    if (up_to(random, 1) == 0) options.set_back_at = 10'000'000;
    RingSimulator simulator(options, workers);
    simulator.track_indexes = true;
    for (GateId i = 1; i < kGates; ++i) simulator.ring.gates().add({});
    simulator.thieves = up_to(random, 1) == 0;
    if (up_to(random, 1) == 0) simulator.use_leases();
    for (int i = 0; i < 400; ++i) {
      simulator.run_for(microseconds(up_to(random, 3000)));
      if (simulator.batches().empty() || (simulator.batches().size() < 40 && up_to(random, 9) == 0)) {
        QueueOptions queue{
            .tenant = std::string(1, static_cast<char>('a' + up_to(random, 4))),
            .customer = std::string(up_to(random, 1), static_cast<char>('x' + up_to(random, 2))),
            .weight = static_cast<std::uint32_t>(1 + up_to(random, 999)),
            .gate = static_cast<GateId>(up_to(random, kGates - 1))};
        if (up_to(random, 3) == 0) queue.slots = static_cast<std::uint32_t>(1 + up_to(random, 3));
        if (up_to(random, 2) == 0) queue.cost_hint = Nanoseconds(up_to(random, 5'000'000));
        simulator.submit(queue, up_to(random, 200), random_cost(random), up_to(random, 2) > 0);
        continue;
      }
      Batch& batch = *simulator.batches()[up_to(random, simulator.batches().size() - 1)];
      disturb_batch(simulator, batch, random);
    }
    open_gates(simulator.ring);
    for (const auto& batch : simulator.batches()) {
      simulator.ring.resume(batch->queue, simulator.now());
      simulator.ring.close(batch->queue, simulator.now());
    }
    simulator.run();
    forget_rates(simulator);
    for (const auto& batch : simulator.batches()) {
      ASSERT_EQ(batch->ended + batch->dropped, batch->added);
      ASSERT_EQ(static_cast<std::uint64_t>(std::ranges::count(batch->runs, 1)), batch->ended);
      ASSERT_EQ(static_cast<std::uint64_t>(std::ranges::count(batch->runs, 0)), batch->dropped);
      ASSERT_FALSE(simulator.ring.view().queue(batch->queue, simulator.now()).attached);
    }
    const RingSnapshot snapshot = simulator.ring.view().snapshot(1, simulator.now());
    ASSERT_EQ(snapshot.queued, 0U);
    ASSERT_EQ(snapshot.executors, 0U);
    ASSERT_TRUE(std::ranges::all_of(snapshot.tenants, &TenantView::is_idle));
    for (const TenantView& tenant : snapshot.tenants)
      ASSERT_TRUE(simulator.ring.view().customers(tenant.tenant, nullptr, 10, simulator.now()).empty())
          << "all are settled";
    ASSERT_EQ(simulator.ring.end_waits(simulator.now()), std::nullopt);
    ASSERT_FALSE(simulator.ring.hints().has_work());
    expect_empty_gates(simulator.ring, snapshot);
  }
}

}  // namespace
}  // namespace locksley::test

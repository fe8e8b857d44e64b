// Gates that bind: the bound of core/FAIRNESS.md for those who wait at one gate, in random runs,
// and shares across gates. LOCKSLEY_SEED repeats a run.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>
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
using Batch = RingSimulator::Batch;

// Some gates that open and close, and tenants that have batches at one gate each.
class GateRun {
 public:
  enum class Extra : std::uint8_t { kNone, kThieves, kRestricted };

  GateRun(std::uint64_t seed, std::uint64_t gates, Extra extra)
      : random_(seed),
        workers_(static_cast<std::uint32_t>(2 + up_to(random_, 6))),
        simulator_(options(), workers_) {
    simulator_.thieves = extra == Extra::kThieves;
    for (std::uint64_t i = 0; i < gates; ++i) {
      gates_.push_back(*simulator_.ring.gates().add({.concurrency = some_concurrency()}));
    }
    for (std::uint64_t i = up_to(random_, workers_); i > 0 && extra == Extra::kRestricted; --i) {
      simulator_.restricted.emplace_back(some_gate());
      simulator_.restricted.back().add(some_gate());
    }
    simulator_.on_step = [this] { look(); };
    for (int i = 0; i < 8; ++i) submit();
  }

  void run() {
    for (int i = 0; i < 150; ++i) {
      simulator_.run_for(microseconds(up_to(random_, 8000)));
      disturb();
    }
  }

  double worst() const { return std::max(tenants_.worst(), batches_.worst()); }
  std::uint64_t looks() const { return tenants_.looks() + batches_.looks(); }
  // How often a gate that had something ready was closed when the bound was looked at.
  std::uint64_t closed_looks() const { return closed_looks_; }

 private:
  FairRing::Options options() {
    FairRing::Options options{.quantum = microseconds(200 + up_to(random_, 2000)), .parallelism = workers_};
    if (up_to(random_, 1) == 0) options.set_back_at = 20'000'000;
    return options;
  }
  std::uint32_t some_concurrency() { return static_cast<std::uint32_t>(up_to(random_, workers_)); }
  GateId some_gate() { return gates_[up_to(random_, gates_.size() - 1)]; }

  void submit() {
    const GateId gate = some_gate();
    const std::string tenant = std::to_string(gate) + static_cast<char>('a' + up_to(random_, 2));
    names_.push_back(tenant);
    if (!weights_.contains(tenant)) {
      weights_[tenant] = static_cast<std::uint32_t>(1 + up_to(random_, 9));
      simulator_.ring.groups().set_tenant_weight(tenant, weights_[tenant]);
    }
    QueueOptions queue{
        .tenant = tenant, .weight = static_cast<std::uint32_t>(1 + up_to(random_, 9)), .gate = gate};
    if (up_to(random_, 3) == 0) queue.slots = static_cast<std::uint32_t>(1 + up_to(random_, 3));
    if (up_to(random_, 2) == 0) queue.cost_hint = microseconds(up_to(random_, 5000));
    simulator_.submit(queue, up_to(random_, 400), random_cost(random_), true);
  }

  void disturb() {
    Batch& batch = *simulator_.batches()[up_to(random_, simulator_.batches().size() - 1)];
    switch (up_to(random_, 9)) {
      case 0:
        if (simulator_.batches().size() < 14) submit();
        break;
      case 1:
        simulator_.ring.pause(batch.queue, simulator_.now());
        break;
      case 2:
        simulator_.ring.resume(batch.queue, simulator_.now());
        break;
      case 3:
        simulator_.ring.gates().set_concurrency(some_gate(), some_concurrency());
        break;
      case 4:
        simulator_.ring.gates().set_switch(some_gate(), up_to(random_, 2) != 0);
        break;
      default:
        simulator_.add(batch, up_to(random_, 1) == 0 ? 1 + up_to(random_, 3) : up_to(random_, 300));
    }
    look();
  }

  void look() {
    std::map<GateId, std::map<std::string, PairWatch<std::string>::State>> tenants;
    std::map<std::string, std::map<Batch*, PairWatch<Batch*>::State>> batches;
    for (std::size_t i = 0; i < simulator_.batches().size(); ++i) {
      Batch& batch = *simulator_.batches()[i];
      const QueueView view = simulator_.ring.view().queue(batch.queue, simulator_.now());
      // Ready, whether its gate is open or not.
      const bool ready = view.queued != 0 && !view.paused && !view.at_slots;
      closed_looks_ += ready && view.gate_is_closed ? 1 : 0;
      const Nanoseconds received = batch.received(simulator_.now());
      batches[names_[i]][&batch] = {ready, received, batch.longest_turn, batch.weight, batch.running};
      auto& tenant =
          tenants[view.gate]
              .try_emplace(names_[i], false, Nanoseconds{0}, Nanoseconds{0}, weights_[names_[i]], 0U)
              .first->second;
      tenant.waiting |= ready;
      tenant.received += received;
      tenant.running += batch.running;
      tenant.longest_turn = std::max(tenant.longest_turn, batch.longest_turn);
    }
    for (const auto& [gate, states] : tenants) tenants_.look(states);
    for (const auto& [name, states] : batches) batches_.look(states);
  }

  Random random_;
  const std::uint32_t workers_;
  RingSimulator simulator_;
  std::vector<GateId> gates_;
  std::vector<std::string> names_;  // of the batches' tenants
  std::map<std::string, std::uint32_t> weights_;
  PairWatch<std::string> tenants_{workers_};
  PairWatch<Batch*> batches_{workers_};
  std::uint64_t closed_looks_ = 0;
};

// `most`: of the bound.
void expect_bound(std::uint64_t gates, GateRun::Extra extra, double most) {
  const std::uint64_t first_seed = base_seed();
  double worst = 0;
  std::uint64_t looks = 0, closed = 0;
  for (std::uint64_t seed = first_seed; seed < first_seed + 60; ++seed) {
    SCOPED_TRACE("LOCKSLEY_SEED=" + std::to_string(seed));
    GateRun run(seed, gates, extra);
    run.run();
    ASSERT_LE(run.worst(), most);
    worst = std::max(worst, run.worst());
    looks += run.looks();
    closed += run.closed_looks();
  }
  std::printf("LOCKSLEY_SEED=%llu: %llu pairs looked at; worst, of the bound: %.2f\n",
              static_cast<unsigned long long>(first_seed), static_cast<unsigned long long>(looks), worst);
  EXPECT_GT(looks, 50'000U);
  EXPECT_GT(closed, 10'000U) << "the gates bind";
}

TEST(FairRingGateBoundTest, AtOneGateThatBindsTheBoundIsThatOfARing) {
  expect_bound(1, GateRun::Extra::kNone, 1);
}

TEST(FairRingGateBoundTest, AtEachOfSeveralGatesThatBindTheBoundIsThatOfARing) {
  expect_bound(3, GateRun::Extra::kNone, 1);
}

// Thieves help jobs of a closed gate, while others wait there that cannot be claimed.
TEST(FairRingGateBoundTest, WithThievesItIsAtMostTwiceAsMuch) {
  expect_bound(1, GateRun::Extra::kThieves, 2);
  expect_bound(3, GateRun::Extra::kThieves, 2);
}

// Who is served by executors that others cannot have may be further ahead.
TEST(FairRingGateBoundTest, WithRestrictedClaimsItIsAtMostTwiceAsMuch) {
  expect_bound(3, GateRun::Extra::kRestricted, 2);
}

}  // namespace
}  // namespace locksley::test

// The bound of core/FAIRNESS.md on three levels, with caps and rates of users, customers and
// batches, and with gates that bind, in random runs. LOCKSLEY_SEED repeats a run.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
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

class TreeRun {
 public:
  enum class Extra : std::uint8_t { kNone, kLeases, kThieves };
  // kBind: gates open and close, and each user has batches at one of them. kNever: they never bind,
  // and customers have batches at any of them.
  enum class Gates : std::uint8_t { kBind, kNever };

  TreeRun(std::uint64_t seed, Gates gates, Extra extra)
      : random_(seed),
        gates_(gates),
        workers_(static_cast<std::uint32_t>(2 + up_to(random_, 6))),
        simulator_(options(), workers_) {
    simulator_.thieves = extra == Extra::kThieves;
    if (extra == Extra::kLeases) simulator_.use_leases();
    watch_ = std::make_unique<Watches>(simulator_.executors());
    for (int i = 0; i < 2; ++i) simulator_.ring.gates().add({.concurrency = some_concurrency()});
    simulator_.ring.groups().on_customer([this](std::string_view tenant, std::string_view customer) {
      GroupLimits limits = some_limits();
      limits.weight = customer_weight(std::string(tenant) + "/" + std::string(customer));
      return limits;
    });
    for (int tenant = 0; tenant < 4; ++tenant) {
      // So that the level of customers is there from the beginning to the end.
      const std::string name(1, static_cast<char>('a' + tenant));
      tenant_gates_[name] = static_cast<GateId>(up_to(random_, 2));
      simulator_.ring.groups().set_tenant_limits(name, {.weight = tenant_weight(name)}, simulator_.now());
      enter(name, "first");
    }
    simulator_.on_step = [this] { look(); };
    for (int i = 0; i < 6; ++i) enter_any();
  }

  void run() {
    for (int i = 0; i < 120; ++i) {
      simulator_.run_for(microseconds(up_to(random_, 8000)));
      disturb();
      look();
    }
  }

  double worst() const {
    return std::max({watch_->tenants.worst(), watch_->customers.worst(), watch_->batches.worst()});
  }
  std::uint64_t looks(int level) const {
    return level == 0   ? watch_->tenants.looks()
           : level == 1 ? watch_->customers.looks()
                        : watch_->batches.looks();
  }
  // How often a group at its limit had something to run when the bound was looked at.
  std::uint64_t limited_looks() const { return limited_looks_; }

 private:
  FairRing::Options options() {
    FairRing::Options options{.quantum = microseconds(200 + up_to(random_, 2000)), .parallelism = workers_};
    if (up_to(random_, 1) == 0) options.set_back_at = 20'000'000;
    if (up_to(random_, 1) == 0) options.most_idle_customers = 1;
    return options;
  }
  std::uint32_t some_concurrency() {
    return gates_ == Gates::kNever ? 0 : static_cast<std::uint32_t>(up_to(random_, workers_));
  }
  GroupLimits some_limits() {
    GroupLimits limits;
    if (up_to(random_, 2) == 0) limits.slots = static_cast<std::uint32_t>(1 + up_to(random_, workers_));
    if (up_to(random_, 4) == 0) limits.start_interval = microseconds(1 + up_to(random_, 15'000));
    return limits;
  }
  std::uint32_t tenant_weight(const std::string& name) {
    return weights_.try_emplace(name, some_weight()).first->second;
  }
  std::uint32_t customer_weight(const std::string& name) { return tenant_weight(name); }
  std::uint32_t some_weight() { return static_cast<std::uint32_t>(1 + up_to(random_, 9)); }

  void enter_any() {
    enter(std::string(1, static_cast<char>('a' + up_to(random_, 3))),
          std::string(up_to(random_, 1), static_cast<char>('x' + up_to(random_, 2))));
  }
  void enter(const std::string& tenant, const std::string& customer) {
    tenants_.push_back(tenant);
    customers_.push_back(tenant + "/" + customer);
    customer_weight(customers_.back());
    QueueOptions queue{.tenant = tenant, .customer = customer, .weight = some_weight()};
    queue.gate = gates_ == Gates::kBind ? tenant_gates_[tenant] : static_cast<GateId>(up_to(random_, 2));
    if (up_to(random_, 3) == 0) queue.slots = static_cast<std::uint32_t>(1 + up_to(random_, 3));
    if (up_to(random_, 2) == 0) queue.cost_hint = microseconds(up_to(random_, 5000));
    simulator_.submit(queue, up_to(random_, 400), random_cost(random_), true);
  }

  void disturb() {
    FairRing& ring = simulator_.ring;
    const std::size_t i = up_to(random_, simulator_.batches().size() - 1);
    Batch& batch = *simulator_.batches()[i];
    switch (up_to(random_, 11)) {
      case 0:
        if (simulator_.batches().size() < 20) enter_any();
        break;
      case 1:
        return ring.pause(batch.queue, simulator_.now());
      case 2:
        return ring.resume(batch.queue, simulator_.now());
      case 3:
        return ring.set_slots(batch.queue, static_cast<std::uint32_t>(up_to(random_, 3)), simulator_.now());
      case 4: {
        GroupLimits limits = some_limits();
        limits.weight = tenant_weight(tenants_[i]);
        return ring.groups().set_tenant_limits(tenants_[i], limits, simulator_.now());
      }
      case 5: {
        GroupLimits limits = some_limits();
        limits.weight = customer_weight(customers_[i]);
        return ring.groups().set_customer_limits(tenants_[i], customers_[i].substr(2), limits,
                                                 simulator_.now());
      }
      case 6:
        return ring.gates().set_concurrency(static_cast<GateId>(up_to(random_, 2)), some_concurrency());
      case 7:
        if (gates_ == Gates::kBind)
          ring.gates().set_switch(static_cast<GateId>(up_to(random_, 2)), up_to(random_, 2) != 0);
        return;
      default:
        simulator_.add(batch, up_to(random_, 1) == 0 ? 1 + up_to(random_, 3) : up_to(random_, 300));
    }
  }

  template <class Node>
  using States = std::map<Node, typename PairWatch<Node>::State>;
  template <class Node>
  static void add(States<Node>& states, const Node& node, std::uint32_t weight, bool waiting,
                  const Batch& batch, Nanoseconds now) {
    auto& state = states.try_emplace(node, false, Nanoseconds{0}, Nanoseconds{0}, weight, 0U).first->second;
    state.waiting |= waiting;
    state.received += batch.received(now);
    state.running += batch.running;
    state.longest_turn = std::max(state.longest_turn, batch.longest_turn);
  }

  void look() {
    std::map<GateId, States<std::string>> tenants;
    std::map<std::string, States<std::string>> customers;
    std::map<std::string, States<Batch*>> batches;
    for (std::size_t i = 0; i < simulator_.batches().size(); ++i) {
      Batch& batch = *simulator_.batches()[i];
      const Nanoseconds now = simulator_.now();
      const QueueView view = simulator_.ring.view().queue(batch.queue, now);
      // Ready, whether what is above it is open or not.
      const bool ready = view.queued != 0 && !view.paused && !view.at_slots;
      limited_looks_ += ready && (view.tenant_at_limit || view.customer_at_limit) ? 1 : 0;
      add(batches[customers_[i]], &batch, batch.weight, ready, batch, now);
      const bool customer_ready = ready && !view.customer_at_limit;
      add(customers[tenants_[i]], customers_[i], weights_[customers_[i]], customer_ready, batch, now);
      add(tenants[gates_ == Gates::kBind ? view.gate : 0], tenants_[i], weights_[tenants_[i]],
          customer_ready && !view.tenant_at_limit, batch, now);
    }
    for (const auto& [gate, states] : tenants) watch_->tenants.look(states);
    for (const auto& [name, states] : customers) watch_->customers.look(states);
    for (const auto& [name, states] : batches) watch_->batches.look(states);
  }

  struct Watches {
    explicit Watches(std::uint32_t executors)
        : tenants(executors), customers(executors), batches(executors) {}
    PairWatch<std::string> tenants, customers;
    PairWatch<Batch*> batches;
  };

  Random random_;
  const Gates gates_;
  const std::uint32_t workers_;
  RingSimulator simulator_;
  std::map<std::string, GateId> tenant_gates_;
  std::map<std::string, std::uint32_t> weights_;
  std::vector<std::string> tenants_;    // of the batches
  std::vector<std::string> customers_;  // "tenant/customer"
  std::unique_ptr<Watches> watch_;
  std::uint64_t limited_looks_ = 0;
};

// `most`: of the bound.
void expect_bound(TreeRun::Gates gates, TreeRun::Extra extra, double most) {
  const std::uint64_t first_seed = base_seed();
  double worst = 0;
  std::uint64_t looks[3] = {}, limited = 0;
  for (std::uint64_t seed = first_seed; seed < first_seed + 30; ++seed) {
    SCOPED_TRACE("LOCKSLEY_SEED=" + std::to_string(seed));
    TreeRun run(seed, gates, extra);
    run.run();
    ASSERT_LE(run.worst(), most);
    worst = std::max(worst, run.worst());
    for (int level = 0; level < 3; ++level) looks[level] += run.looks(level);
    limited += run.limited_looks();
  }
  std::printf(
      "LOCKSLEY_SEED=%llu: %llu pairs of users, %llu of customers, %llu of batches; worst, of the bound: "
      "%.2f\n",
      static_cast<unsigned long long>(first_seed), static_cast<unsigned long long>(looks[0]),
      static_cast<unsigned long long>(looks[1]), static_cast<unsigned long long>(looks[2]), worst);
  for (const std::uint64_t each : looks) EXPECT_GT(each, 5'000U);
  EXPECT_GT(limited, 10'000U) << "limits bind";
}

TEST(FairRingCustomersBoundTest, WhereGatesAndLimitsBindTheBoundHoldsOnEachLevel) {
  expect_bound(TreeRun::Gates::kBind, TreeRun::Extra::kNone, 1);
}

TEST(FairRingCustomersBoundTest, OfLeasesToo) {
  expect_bound(TreeRun::Gates::kBind, TreeRun::Extra::kLeases, 1);
}

TEST(FairRingCustomersBoundTest, AtAnyGatesThatDoNotBind) {
  expect_bound(TreeRun::Gates::kNever, TreeRun::Extra::kNone, 1);
}

// Thieves help jobs of a group at its cap, while others wait there that cannot be claimed.
TEST(FairRingCustomersBoundTest, WithThievesItIsAtMostTwiceAsMuch) {
  expect_bound(TreeRun::Gates::kBind, TreeRun::Extra::kThieves, 2);
}

}  // namespace
}  // namespace locksley::test

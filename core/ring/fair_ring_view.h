// The content of a ring: for people, for metrics, and for code that must know where a job is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/job.h"
#include "core/ring/fair_ring.h"
#include "core/ring/ring_view.h"
#include "core/ring/state/due_service.h"
#include "core/ring/state/ring_gate.h"
#include "core/ring/state/ring_group.h"
#include "core/ring/state/ring_lock.h"
#include "core/ring/state/ring_queue.h"

namespace locksley {

// Reads a ring, and changes nothing.
//
// A handle of a ring, which outlives it. Any thread. Unless it says otherwise, a call takes the
// ring's mutex once, its answer is of that moment, and it is O(1).
class FairRing::View {
 public:
  // O(gates).
  RingTotals totals() const;
  // All gates, by id. O(gates).
  std::vector<GateView> gates() const;
  // None: the ring does not know the tenant, which then has nothing in it. O(log(tenants)).
  std::optional<TenantView> tenant(std::string_view tenant, Nanoseconds now) const;
  // The tenants that the ring knows, in the order of their names, after the name `after` (null:
  // from the first one on); at most `most`. O(log(tenants) + most).
  std::vector<TenantView> tenants(const std::string* after, std::size_t most, Nanoseconds now) const;
  // For tests: calls visit(TenantView&&) for each of them, without the mutex. Takes the mutex once
  // for each kTenantsAtOnce tenants, since executors wait for it meanwhile; so the views are not
  // all of one moment, and a tenant that comes or leaves meanwhile may be among them or not.
  // O(tenants * log(tenants) / kTenantsAtOnce + tenants).
  static constexpr std::size_t kTenantsAtOnce = 128;  // some 10 us with the mutex
  template <class Visit>
  void for_each_tenant(Nanoseconds now, Visit visit) const {
    std::optional<std::string> after;
    for (std::size_t seen = kTenantsAtOnce; seen == kTenantsAtOnce;) {
      std::vector<TenantView> page = tenants(after ? &*after : nullptr, kTenantsAtOnce, now);
      seen = page.size();
      if (seen != 0) after = page.back().tenant;
      for (TenantView& tenant : page) visit(std::move(tenant));
    }
  }
  // For tests: the values of summary(), and the tenants, read with for_each_tenant().
  RingSnapshot snapshot(std::size_t deepest, Nanoseconds now) const;
  // For metrics: the ring without the tenants. `deepest`: of how many of the deepest queues to list
  // the depth. Visits at most 1,024 queues: where more queues than that have about the same depth
  // (within a factor of two), it lists some of them, not exactly the deepest.
  RingSnapshot summary(std::size_t deepest) const;
  // None: the ring does not know the customer, which then has nothing in it. O(log(customers)).
  std::optional<CustomerView> customer(std::string_view tenant, std::string_view customer,
                                       Nanoseconds now) const;
  // The customers that the ring knows, in the order of their names, after the name `after` (null:
  // from the first one on); at most `most`. O(log(customers) + most).
  std::vector<CustomerView> customers(std::string_view tenant, const std::string* after, std::size_t most,
                                      Nanoseconds now) const;

  // Whether a queue belongs to the gate. A gate that does not exist ends the process.
  bool has_queues(GateId gate) const;

  // O(queues of the customer + customers of the tenant + tenants), for QueueView::ahead. At each
  // gate it reads at most 65,536 queue keys (about 1 ns each) and 4,096 groups (about 25 ns each)
  // of each level; it takes a sample where there are more.
  QueueView queue(const RingQueue& queue, Nanoseconds now) const;
  // Whether an executor holds jobs of the queue, or is about to. False stays false while the queue
  // is paused.
  bool has_claims(const RingQueue& queue) const;
  // Whether one more remote executor is admitted, apart from the order of service: the state and
  // the slots of the queue, its gate, and the limits and the accounts of its tenant and customer.
  bool has_place(const RingQueue& queue) const;
  // Whether the job waits in the queue. O(ranges given back), up to 10,000: some 10 us. None: there
  // are more.
  std::optional<bool> is_queued(const RingQueue& queue, std::uint64_t index) const;
  // Where the tail of the queue begins, its unclaimed part (QueuedJobs::tail()): all jobs from
  // there on are queued. If it is empty: an index above all that were added.
  std::uint64_t first_unclaimed(const RingQueue& queue) const;

 private:
  friend class FairRing;
  explicit View(const FairRing& ring) : ring_(ring) {}

  std::uint64_t queues_ahead(const RingQueue& queue) const LOCKSLEY_REQUIRES(ring_.mutex_, kFairNodes);
  // How many turns the other groups on the level take before the group of `own` has taken
  // `own_turns` turns. `gate`: its start cost tells how long a turn takes.
  std::uint64_t turns_of_others(const RingSeat& own, const RingLevel& level, const RingGate& gate,
                                std::uint64_t own_turns) const LOCKSLEY_REQUIRES(ring_.mutex_, kFairNodes);
  RingTotals totals_locked() const LOCKSLEY_REQUIRES(ring_.mutex_, kFairNodes);
  std::vector<GateView> gates_locked() const LOCKSLEY_REQUIRES(ring_.mutex_, kFairNodes);
  TenantView view_of_tenant(const RingGroup& tenant, const ServiceReading& lane, Nanoseconds now) const
      LOCKSLEY_REQUIRES(ring_.mutex_, kFairNodes);
  CustomerView view_of(const RingGroup& customer, const ServiceReading& lane, Nanoseconds now) const
      LOCKSLEY_REQUIRES(ring_.mutex_, kFairNodes);

  const FairRing& ring_;
};

inline FairRing::View FairRing::view() const { return View(*this); }

}  // namespace locksley

// The content of a lane: for people, for metrics, and for code that must know where a job is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/job.h"
#include "core/batch/batch.h"
#include "core/lane/lane.h"
#include "core/ring/fair_ring_view.h"
#include "core/ring/ring_view.h"
#include "core/ring/state/ring_gate.h"

namespace locksley {

// Reads a lane, as FairRing::View reads its ring, at this moment.
//
// A handle of a lane, which outlives it. Any thread. Nothing blocks for long.
class Lane::View {
 public:
  // For tests.
  RingSnapshot snapshot(std::size_t deepest) const {
    return lane_.ring_.view().snapshot(deepest, steady_now());
  }
  RingSnapshot summary(std::size_t deepest) const { return lane_.ring_.view().summary(deepest); }
  RingTotals totals() const { return lane_.ring_.view().totals(); }
  std::vector<GateView> gates() const { return lane_.ring_.view().gates(); }
  std::optional<TenantView> tenant(std::string_view tenant) const {
    return lane_.ring_.view().tenant(tenant, steady_now());
  }
  std::vector<TenantView> tenants(const std::string* after, std::size_t most) const {
    return lane_.ring_.view().tenants(after, most, steady_now());
  }
  std::optional<CustomerView> customer(std::string_view tenant, std::string_view customer) const {
    return lane_.ring_.view().customer(tenant, customer, steady_now());
  }
  std::vector<CustomerView> customers(std::string_view tenant, const std::string* after,
                                      std::size_t most) const {
    return lane_.ring_.view().customers(tenant, after, most, steady_now());
  }

  // Whether a batch belongs to the gate.
  bool has_batches(GateId gate) const { return lane_.ring_.view().has_queues(gate); }

  QueueView batch(const Batch& batch) const {
    return lane_.ring_.view().queue(batch.ring_queue(), steady_now());
  }
  // Whether an executor holds jobs of the batch, or is about to. False stays false while the batch
  // is held.
  bool has_claims(const Batch& batch) const { return lane_.ring_.view().has_claims(batch.ring_queue()); }
  // Whether one more remote executor could run jobs of the batch, if it had any to claim:
  // FairRing::View::has_place().
  bool has_place(const Batch& batch) const { return lane_.ring_.view().has_place(batch.ring_queue()); }
  // Whether the job waits in the lane. None: not known, since the queue has too many parts to
  // search.
  std::optional<bool> is_queued(const Batch& batch, std::uint64_t index) const {
    return lane_.ring_.view().is_queued(batch.ring_queue(), index);
  }
  // FairRing::View::first_unclaimed(): all jobs from there on are queued.
  std::uint64_t first_unclaimed(const Batch& batch) const {
    return lane_.ring_.view().first_unclaimed(batch.ring_queue());
  }

 private:
  friend class Lane;
  explicit View(const Lane& lane) : lane_(lane) {}

  const Lane& lane_;
};

inline Lane::View Lane::view() const { return View(*this); }

}  // namespace locksley

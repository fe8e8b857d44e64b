// Views of a ring and of one queue in it: plain values, as they were at one moment.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/job.h"
#include "core/ring/state/backoff.h"

namespace locksley {

// A tenant, at one moment.
struct TenantView {
  std::string tenant;
  std::uint32_t weight = 1;
  std::uint32_t slots = 0;        // GroupLimits
  Nanoseconds start_interval{0};  // GroupLimits
  std::uint64_t queues = 0;       // attached, without internal ones
  std::uint64_t queued = 0;       // jobs
  std::uint32_t executors = 0;
  Nanoseconds busy{};  // worker time settled since the tenant first came
  double share = 0;    // the fraction of the lane that is due to it now; 0 if it has nothing to run
  // Fractions of the lane's service in the recent time (time constant 5 s) in which the tenant had
  // something to run: the part that it got, and the part that was due to it. 0 if it had nothing
  // for 5 s.
  double received = 0;
  double due = 0;
  bool is_idle = true;  // without queues but internal ones: kept for its counters
};

// A customer of a tenant, while it has batches in the ring or was served a moment ago.
struct CustomerView {
  std::string customer;
  std::uint32_t weight = 1;
  std::uint32_t slots = 0;        // GroupLimits
  Nanoseconds start_interval{0};  // GroupLimits
  std::uint64_t queues = 0;       // attached, without internal ones
  std::uint64_t queued = 0;       // jobs
  std::uint32_t executors = 0;
  double share = 0;  // the fraction of the lane that is due to it now; 0 if it has nothing to run
  // As in TenantView: fractions of the lane's service in the recent time in which the customer had
  // something to run.
  double received = 0;
  double due = 0;
  bool at_limit = false;  // has something to run, and as many slots or starts as it may
};

// A gate, at one moment.
struct GateView {
  std::uint32_t gate = 0;
  std::uint32_t concurrency = 0;  // 0: no limit
  bool is_on = true;              // GateOptions::is_on
  bool is_open = true;            // its jobs may be claimed, by local executors or by remote ones
  std::uint64_t queues = 0;       // attached, internal ones too
  // Queues with jobs (paused ones too) or with executors.
  std::uint64_t active_queues = 0;
  std::uint64_t queued = 0;  // jobs
  std::uint32_t executors = 0;
};

// Sums over the whole ring, at one moment.
struct RingTotals {
  std::uint64_t queued = 0;   // jobs
  std::uint64_t claimed = 0;  // jobs claimed and not settled
  std::uint32_t executors = 0;
  // Queues with jobs (paused ones too) or with executors.
  std::uint64_t active_queues = 0;
  std::uint64_t claims_total = 0;
};

// The whole ring, at one moment. FairRing::View::snapshot() adds the tenants and their sum
// `queues`, as for_each_tenant() found them after that; else these are empty and 0.
struct RingSnapshot : RingTotals {
  std::uint64_t queues = 0;            // attached, without internal ones
  std::vector<std::uint64_t> deepest;  // numbers of jobs in the deepest queues, deepest first
  std::vector<TenantView> tenants;     // by name
  std::vector<GateView> gates;         // by id
};

// A queue, at one moment.
struct QueueView {
  bool attached = false;  // if not, the other members mean nothing
  std::uint64_t queued = 0;
  std::uint32_t executors = 0;
  // Queues that will be served before it if nothing changes; 0 unless it waits for a turn. Exact
  // with one tenant that has one customer and at most 65,535 queues; otherwise its accuracy is that
  // of the cost estimates or of the sample.
  std::uint64_t ahead = 0;
  double share = 0;        // the fraction of the lane that is due to it now; 0 if it has nothing that may run
  double received = 0;     // the fraction of the lane's service that it got recently (time constant 5 s)
  Nanoseconds job_cost{};  // expected cost of a job, at least of its start; 0: unknown
  bool paused = false;
  bool at_slots = false;
  Backoff backoff = Backoff::kNone;  // why it is not served until FairRing::end_waits()
  // The tenant, or the customer, has as many slots as it may, or its rate admits no start now.
  bool tenant_at_limit = false;
  bool customer_at_limit = false;
  bool results_at_limit = false;  // the tenant's account of results is full: none of its jobs start
  bool gate_is_closed = false;    // its gate admits no executor: it is off, held, or at its limit
  bool waiting = false;           // has jobs that may be claimed now
  std::uint32_t gate = 0;
};

}  // namespace locksley

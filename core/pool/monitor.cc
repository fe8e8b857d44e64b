#include "core/pool/monitor.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "core/pool/pool.h"
#include "core/pool/worker.h"
#include "core/sync/asymmetric_barrier.h"

namespace locksley {

std::thread Monitor::start() {
  stopping_.store(false);
  // The lane may have waits that began before this monitor, and that it reported to an earlier one.
  waits_changed_.store(true);
  return std::thread([this] { run(); });
}

void Monitor::ask_to_stop() {
  stopping_.store(true);
  parker_.unpark();
}

void Monitor::run() {
  std::vector<std::uint64_t> last_bursts(Pool::kMaxWorkers, ~std::uint64_t{0});
  unsigned quiet = 0;
  while (!stopping_.load()) {
    check_waits();
    if (check_workers(last_bursts)) {
      quiet = 0;
    } else if (++quiet >= kQuietPeriodsBeforePark) {
      quiet = 0;
      asleep_.store(true);
      AsymmetricBarrier::heavy();
      // A worker that marked itself before the barrier is seen now; a worker that marks itself
      // later sees that the monitor is asleep.
      if (!check_workers(last_bursts) && !stopping_.load()) park(std::nullopt);
      asleep_.store(false);
      continue;
    }
    park(kPeriod);
  }
}

void Monitor::check_waits() {
  if (!waits_changed_.exchange(false) && (!next_wait_ || steady_now() < *next_wait_)) return;
  next_wait_ = pool_.lane_.end_waits(steady_now());
  if (pool_.lane_.hints().has_work()) pool_.lane_.wake();
}

void Monitor::park(std::optional<Nanoseconds> timeout) {
  if (next_wait_) {
    const Nanoseconds wait = std::max(Nanoseconds{0}, *next_wait_ - steady_now());
    timeout = timeout ? std::min(*timeout, wait) : wait;
  }
  // A token that was there already, from need() or waits_changed(), ends this at once.
  timeout ? (void)parker_.park_for(*timeout) : parker_.park();
}

bool Monitor::check_workers(std::vector<std::uint64_t>& last_bursts) {
  bool any = false;
  for (std::uint32_t i = 0, count = pool_.made_.load(); i < count; ++i) {
    Worker& worker = pool_.worker(i);
    if (!worker.has_unpublished()) continue;
    any = true;
    const std::uint64_t bursts = worker.bursts_begun();
    if (std::exchange(last_bursts[i], bursts) != bursts) continue;
    worker.cut_burst();
    (void)worker.writer().publish_for_worker(
        [this](Batch& batch) { pool_.lane_.cancel_after_failures(batch); });
  }
  return any;
}

}  // namespace locksley

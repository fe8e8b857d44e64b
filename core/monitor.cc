#include "core/monitor.h"

#include <memory>

#include "core/asymmetric_barrier.h"
#include "core/pool.h"
#include "core/worker.h"

namespace locksley {

void Monitor::start() {
  stopping_.store(false);
  thread_ = std::thread([this] { run(); });
}

void Monitor::stop() {
  stopping_.store(true);
  parker_.unpark();
  thread_.join();
}

void Monitor::run() {
  std::vector<std::uint64_t> last_pieces(Pool::kMaxWorkers, ~std::uint64_t{0});
  unsigned quiet = 0;
  while (!stopping_.load()) {
    if (look(last_pieces)) {
      quiet = 0;
    } else if (++quiet >= kQuietPeriodsBeforeSleep) {
      quiet = 0;
      asleep_.store(true);
      AsymmetricBarrier::heavy();
      // A worker that marked itself before the barrier is seen now; one that does later sees that the monitor
      // is asleep.
      if (!look(last_pieces) && !stopping_.load()) parker_.park();
      asleep_.store(false);
      continue;
    }
    (void)parker_.park_for(kPeriod);
  }
}

// Whether any worker has marked itself. Publishes for those that have not moved since the last look.
bool Monitor::look(std::vector<std::uint64_t>& last_pieces) {
  bool any = false;
  for (std::uint32_t i = 0, count = pool_.slot_count_.load(); i < count; ++i) {
    Worker& worker = pool_.slot(i);
    if (!worker.has_unpublished()) continue;
    any = true;
    const std::uint64_t pieces = worker.pieces_begun();
    if (std::exchange(last_pieces[i], pieces) != pieces) continue;
    worker.cut_piece();
    std::shared_ptr<Batch> batch;
    if (worker.writer().publish_for_worker(batch) == ResultWriter::Outcome::too_many_failures) {
      pool_.lane_.cancel_after_failures(*batch);
    }
  }
  return any;
}

}  // namespace locksley

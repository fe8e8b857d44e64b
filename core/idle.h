// Which workers look for work and which are parked; who is woken when work comes.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "core/asymmetric_barrier.h"
#include "core/atomics.h"
#include "core/parker.h"

namespace locksley {

// Workers are active (they run something), searching (they look for something to run) or parked. A fourth
// kind, helpers, are active workers that wait for their sub-jobs, have nothing of their batch to run, and are
// parked until they have. At most half of the workers begin to search at a time (woken ones search beside
// them), and whoever publishes work wakes nobody while somebody searches: the searcher will find it, or see
// it in its last look before it parks (core/README.md has the argument, in numbered steps).
//
// Owned by the pool; outlives its workers. Any thread may call anything. The mutex is taken by whoever parks
// or leaves a list, and by wake-ups that find a sleeper; notify() with nobody to wake is one load.
class Idle {
 public:
  // Something that can be woken. A member of its worker.
  struct Sleeper {
    Parker parker;
    // Guarded by Idle's mutex:
    bool listed = false;
    const void* batch = nullptr;  // of a helper: what it could run
  };

  void set_workers(std::uint32_t workers) { workers_.store(workers); }

  // ---- For those who publish work. The work must be visible (seq_cst) before ----

  // Work that any worker can take.
  void notify() {
    const std::uint64_t state = state_.load();
    if (searching(state) == 0 && parked(state) != 0) wake_one();
  }
  // A task was pushed onto the calling worker's deque: whether wake_for_task() is needed. Called for every
  // spawn.
  bool somebody_wants_task() const {
    AsymmetricBarrier::light();
    // [idle-task] relaxed: ordered after the push by the barrier; pairs with heavy() in enter_park() and
    // enter_help().
    const std::uint64_t state = state_.load(std::memory_order_relaxed);
    return state >= kParked && searching(state) == 0;
  }
  // There is a task of `batch` in somebody's deque: wakes one who can take it, unless somebody searches.
  void wake_for_task(const void* batch);
  // Everybody looks again: shutdown, or a change that concerns all.
  void wake_all();

  // ---- For workers ----

  // active -> searching; false if enough others search already: then the worker parks.
  bool try_search();
  // Whether the calling searcher is the only one: then it may go on looking for a while.
  bool is_sole_searcher() const { return searching(state_.load()) == 1; }
  // searching -> active, having found something. True if it was the last searcher: it must then look whether
  // there is more work, and notify() if so, because whoever published it relied on the searcher.
  bool end_search();
  // searching (or active) -> parked. The caller must then look for work once more, and park only if there is
  // none.
  void enter_park(Sleeper& sleeper, bool was_searching);
  // parked -> searching, by the worker itself, because it saw work after all. If a waker was faster, its
  // token is taken.
  void leave_park(Sleeper& sleeper);
  // parked -> searching, by the worker itself, after its parker returned. Usually it was woken and is counted
  // already; but a token may have been left from an earlier wait.
  void after_park(Sleeper& sleeper);

  // active -> helper of `batch`, and back. The caller looks once more in between, as above. leave_help()
  // tolerates having been woken.
  void enter_help(Sleeper& sleeper, const void* batch);
  void leave_help(Sleeper& sleeper);

  // Whether any worker has nothing to run. A hint.
  bool anybody_free() const {
    const std::uint64_t state = state_.load();
    return parked(state) != 0 || searching(state) != 0;
  }
  // Whether any worker is parked, in wait for work or as a helper. A hint.
  bool anybody_parked() const {
    const std::uint64_t state = state_.load();
    return parked(state) != 0 || helpers(state) != 0;
  }

 private:
  // One word, so that one load tells a publisher all it needs.
  static constexpr std::uint64_t kSearching = 1;
  static constexpr std::uint64_t kParked = std::uint64_t{1} << 20;
  static constexpr std::uint64_t kHelpers = std::uint64_t{1} << 40;
  static constexpr std::uint64_t kMask = kParked - 1;
  static std::uint32_t searching(std::uint64_t state) { return static_cast<std::uint32_t>(state & kMask); }
  static std::uint32_t parked(std::uint64_t state) {
    return static_cast<std::uint32_t>((state / kParked) & kMask);
  }
  static std::uint32_t helpers(std::uint64_t state) { return static_cast<std::uint32_t>(state / kHelpers); }

  void wake_one();
  Sleeper* unlist_parked();  // [needs mutex_]

  std::atomic<std::uint32_t> workers_{1};
  // Counts of searchers, parked and helpers; written by workers and wakers, read by publishers, all seq_cst
  // but for notify_task().
  alignas(kCacheLine) std::atomic<std::uint64_t> state_{0};

  alignas(kCacheLine) std::mutex mutex_;
  // Guarded by mutex_. The last to park is the first to be woken: its caches are warmest.
  std::vector<Sleeper*> parked_;
  std::vector<Sleeper*> helpers_;
};

}  // namespace locksley

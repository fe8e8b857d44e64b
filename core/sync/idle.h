// Which workers look for work and which are parked; which worker is woken when work comes.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/base/cache_line.h"
#include "core/sync/atomics.h"
#include "core/sync/mutex.h"
#include "core/sync/parker.h"

namespace locksley {

// The states of a pool's workers. A worker is active (it runs something), searching (it looks for
// something to run), parked or a helper: parked inside a wait for its sub-jobs, until they have
// ended or there is a task of its batch. At most half of the workers begin to search at a time;
// woken workers search as well. A thread that publishes work wakes no worker while one searches:
// the searcher will find the work, or see it in its last search before it parks (core/README.md has
// the argument, in numbered steps). The states are those of tokio's idle set
// (tokio/src/runtime/scheduler/multi_thread/idle.rs), and helpers. Programs use Idle, below.
//
// Owned by the pool; outlives its workers. Any thread may call the functions for publishers, a
// worker those for workers.
//
// The mutex is taken to park, to leave a list, and by wake-ups that find a sleeper; notify() with
// no worker to wake is one load. No call blocks for longer than the mutex is held, except
// leave_park(), which may wait for a token on its way. Nothing fails.
template <class Atomics>
class BasicIdle {
 public:
  // A worker as an object that can be woken; a member of its worker.
  struct Sleeper {
    typename Atomics::parker parker;
    // Guarded by the mutex of the Idle:
    bool listed = false;
    const void* batch = nullptr;  // of a helper: the batch whose tasks it could run
  };

  // How many workers share this set: at most half of them, but at least one, begin to search.
  void set_workers(std::uint32_t workers) { workers_.store(workers); }

  // ---- For publishers of work, after the work is visible (seq_cst) ----

  // Work that any worker can take.
  void notify() {
    const std::uint64_t state = state_.load();
    if (searching(state) == 0 && parked(state) != 0) wake_one();
  }
  // After the calling worker has pushed a task of `batch` onto its deque: whether wake_for_task()
  // may be needed. Called for every spawn. Ignores helpers of other batches, unless such a batch
  // shares one of 64 bits with this one: else each spawn would take the mutex while any helper is
  // parked.
  bool needs_wake_for_task(const void* batch) const {
    Atomics::barrier::light();
    // [idle-task] relaxed: ordered after the push by the barrier; pairs with heavy() in
    // enter_help(), and after enter_park() and end_search().
    const std::uint64_t state = state_.load(std::memory_order_relaxed);
    if (state < kParked || searching(state) != 0) return false;
    // [idle-helpers] relaxed: as above; enter_help() sets the bit before it passes heavy().
    return parked(state) != 0 || (helped_.load(std::memory_order_relaxed) >> place_of(batch) & 1) != 0;
  }
  // A task of `batch` is in some worker's deque: wakes a worker that can take it, unless one
  // searches.
  void wake_for_task(const void* batch);
  // Wakes all parked workers: for shutdown, or a change that concerns all.
  void wake_all();

  // ---- For workers ----

  // active -> searching. False, and no change, if enough others search already: then the worker
  // parks.
  bool try_search();
  // Whether the calling searcher is the only one. Then it may go on searching for a while.
  bool is_sole_searcher() const { return searching(state_.load()) == 1; }
  // searching -> active: the worker has found work. True if the caller was the last searcher: it
  // must then check whether there is more work, and notify() if so, because the publisher relied on
  // the searcher.
  bool end_search();
  // searching or active -> parked. The caller must then search for work once more, and park only if
  // there is none; before that search, it passes the heavy barrier if any worker's job has spawned
  // (Spawner::has_spawned()).
  enum class From : bool { kActive, kSearching };
  void enter_park(Sleeper& sleeper, From from);
  // parked -> searching, by the worker itself, because it saw work after all. If a waker was
  // faster, this takes the waker's token.
  void leave_park(Sleeper& sleeper);
  // parked -> searching, by the worker itself, after its parker returned. Usually a waker has done
  // so; but the token may have been left from an earlier wait.
  void return_from_park(Sleeper& sleeper);

  // active -> helper of `batch`, and back. The caller searches once more in between, as above, and
  // calls leave_help() whether it was woken or not. True: it was woken for a task, and no other
  // helper was.
  void enter_help(Sleeper& sleeper, const void* batch);
  bool leave_help(Sleeper& sleeper);

  // Whether any worker has nothing to run. A hint.
  bool has_free_worker() const {
    const std::uint64_t state = state_.load();
    return parked(state) != 0 || searching(state) != 0;
  }
  // Whether any worker is parked, waiting for work or as a helper. A hint.
  bool has_parked_worker() const {
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

  // The bit of `helped_` that stands for the batch.
  static std::size_t place_of(const void* batch) {
    constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15;  // Knuth's multiplicative hashing
    return static_cast<std::size_t>(reinterpret_cast<std::uintptr_t>(batch) * kGolden >> 58);
  }

  void wake_one();
  // A parked worker becomes a searcher: the given one, unless a waker was faster; or the last to
  // park, null if none is parked.
  bool unlist_parked(Sleeper& sleeper) LOCKSLEY_REQUIRES(mutex_);
  Sleeper* unlist_parked() LOCKSLEY_REQUIRES(mutex_);
  void unlist_helper(typename std::vector<Sleeper*>::iterator helper) LOCKSLEY_REQUIRES(mutex_);

  typename Atomics::template atomic<std::uint32_t> workers_{1};
  // Counts of searchers, parked and helpers; written by workers and wakers, read by publishers, all
  // seq_cst but for needs_wake_for_task().
  alignas(kCacheLine) typename Atomics::template atomic<std::uint64_t> state_{0};
  // A bit for each batch of a parked helper: place_of(). Written under the mutex, read as `state_`.
  typename Atomics::template atomic<std::uint64_t> helped_{0};

  alignas(kCacheLine) typename Atomics::mutex mutex_;
  // The last to park is the first to be woken: its caches are warmest.
  std::vector<Sleeper*> parked_ LOCKSLEY_GUARDED_BY(mutex_);
  std::vector<Sleeper*> helpers_ LOCKSLEY_GUARDED_BY(mutex_);
  std::array<std::uint32_t, 64> helpers_at_ LOCKSLEY_GUARDED_BY(mutex_){};  // by bit of `helped_`
};

// A class of its own, so that it can be named where it is not yet defined.
class Idle : public BasicIdle<StdAtomics> {};

template <class Atomics>
bool BasicIdle<Atomics>::try_search() {
  std::uint64_t state = state_.load();
  do {
    if (2 * (searching(state) + 1) > std::max<std::uint32_t>(workers_.load(), 2)) return false;
  } while (!state_.compare_exchange_weak(state, state + kSearching));
  return true;
}

template <class Atomics>
bool BasicIdle<Atomics>::end_search() {
  return searching(state_.fetch_sub(kSearching)) == 1;
}

template <class Atomics>
void BasicIdle<Atomics>::enter_park(Sleeper& sleeper, From from) {
  const MutexLock lock(mutex_);
  sleeper.listed = true;
  parked_.push_back(&sleeper);
  state_.fetch_add(kParked - (from == From::kSearching ? kSearching : 0));
}

template <class Atomics>
void BasicIdle<Atomics>::leave_park(Sleeper& sleeper) {
  {
    const MutexLock lock(mutex_);
    if (unlist_parked(sleeper)) return;
  }
  sleeper.parker.park();  // the waker has counted it as searching, and gives or gave its token
}

template <class Atomics>
void BasicIdle<Atomics>::return_from_park(Sleeper& sleeper) {
  const MutexLock lock(mutex_);
  (void)unlist_parked(sleeper);
}

template <class Atomics>
bool BasicIdle<Atomics>::unlist_parked(Sleeper& sleeper) {
  if (!sleeper.listed) return false;
  sleeper.listed = false;
  parked_.erase(std::find(parked_.begin(), parked_.end(), &sleeper));
  state_.fetch_add(kSearching - kParked);
  return true;
}

template <class Atomics>
auto BasicIdle<Atomics>::unlist_parked() -> Sleeper* {
  if (parked_.empty()) return nullptr;
  Sleeper* sleeper = parked_.back();
  parked_.pop_back();
  sleeper->listed = false;
  state_.fetch_add(kSearching - kParked);
  return sleeper;
}

template <class Atomics>
void BasicIdle<Atomics>::wake_one() {
  Sleeper* sleeper;
  {
    const MutexLock lock(mutex_);
    if (searching(state_.load()) != 0) return;  // a worker was woken meanwhile
    sleeper = unlist_parked();
  }
  if (sleeper != nullptr) sleeper->parker.unpark();
}

template <class Atomics>
void BasicIdle<Atomics>::wake_for_task(const void* batch) {
  Sleeper* sleeper = nullptr;
  {
    const MutexLock lock(mutex_);
    if (searching(state_.load()) != 0) return;
    sleeper = unlist_parked();
    if (sleeper == nullptr) {
      const auto helper = std::find_if(helpers_.begin(), helpers_.end(),
                                       [batch](const Sleeper* s) { return s->batch == batch; });
      if (helper == helpers_.end()) return;
      sleeper = *helper;
      unlist_helper(helper);
    }
  }
  sleeper->parker.unpark();
}

template <class Atomics>
void BasicIdle<Atomics>::wake_all() {
  std::vector<Sleeper*> woken;
  {
    const MutexLock lock(mutex_);
    while (Sleeper* sleeper = unlist_parked()) woken.push_back(sleeper);
  }
  for (Sleeper* sleeper : woken) sleeper->parker.unpark();
}

template <class Atomics>
void BasicIdle<Atomics>::enter_help(Sleeper& sleeper, const void* batch) {
  {
    const MutexLock lock(mutex_);
    sleeper.listed = true;
    sleeper.batch = batch;
    helpers_.push_back(&sleeper);
    if (const std::size_t place = place_of(batch); ++helpers_at_[place] == 1)
      helped_.store(helped_.load() | std::uint64_t{1} << place);
    state_.fetch_add(kHelpers);
  }
  Atomics::barrier::heavy();
}

template <class Atomics>
void BasicIdle<Atomics>::unlist_helper(typename std::vector<Sleeper*>::iterator helper) {
  (*helper)->listed = false;
  if (const std::size_t place = place_of((*helper)->batch); --helpers_at_[place] == 0)
    helped_.store(helped_.load() & ~(std::uint64_t{1} << place));
  helpers_.erase(helper);
  state_.fetch_sub(kHelpers);
}

template <class Atomics>
bool BasicIdle<Atomics>::leave_help(Sleeper& sleeper) {
  const MutexLock lock(mutex_);
  if (!sleeper.listed) return true;
  unlist_helper(std::find(helpers_.begin(), helpers_.end(), &sleeper));
  return false;
}

extern template class BasicIdle<StdAtomics>;

}  // namespace locksley

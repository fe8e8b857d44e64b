#pragma once

#include <atomic>
#include <string>
#include <thread>

#include "core/sync/mutex.h"
#include "daemon/store/engine.h"

namespace locksley::daemon {

// Whether the rows of an engine can be read now, for threads that must not wait for a database that is away: those that
// run jobs, and those that serve worker machines.
//
// A reading that finds the engine away says so, after it has waited for a reply itself. From then on a thread of its own
// tries to read the same row, with more patience, until that succeeds, and no other thread needs to try.
//
// A member of the Store; the Engine outlives it. is_reachable() and note_away(): any thread; neither blocks. stop(): the
// thread that stops the store; it waits for a reading that is under way, for some seconds at most.
class Reachability {
 public:
  explicit Reachability(Engine& engine) : engine_(engine) {}
  ~Reachability() { stop(); }
  Reachability(const Reachability&) = delete;
  Reachability& operator=(const Reachability&) = delete;

  bool is_reachable() const { return is_reachable_; }
  // A reading of the first row of `range` has found the engine away. Starts the thread, if it does not run. If that fails, it
  // has no effect: the next reading tries for itself.
  void note_away(const RowRange& range) LOCKSLEY_EXCLUDES(mutex_);
  // Ends the thread. Later calls of note_away() start none.
  void stop() LOCKSLEY_EXCLUDES(mutex_);

 private:
  void run() LOCKSLEY_EXCLUDES(mutex_);
  // What the thread tries to read: a range of rows, in strings of its own.
  struct Wanted {
    Table table = Table::kIndex;
    std::string low, high, from_at_most;
  };
  bool can_read(const Wanted& wanted) const;

  Engine& engine_;
  std::atomic<bool> is_reachable_ = true;
  Mutex mutex_;
  CondVar changed_;
  Wanted wanted_ LOCKSLEY_GUARDED_BY(mutex_);
  bool stopping_ LOCKSLEY_GUARDED_BY(mutex_) = false;
  std::thread thread_ LOCKSLEY_GUARDED_BY(mutex_);
};

}  // namespace locksley::daemon

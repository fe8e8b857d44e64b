// Whether the database replies.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <stop_token>
#include <thread>

#include "core/sync/mutex.h"
#include "daemon/store/engine/engine.h"

namespace locksley::daemon {

// Whether the rows of an engine can be read now, for threads that must not wait for a database that
// is away: those that read payloads.
//
// A reading that gets no reply in time calls note_away(). If the engine then does not even reply to
// a short question, a thread of this object repeats the question until there is a reply. Until then
// no other thread needs to try. So a payload that is large for its network, or a reading that waits
// for a disk, holds up the thread that reads it, and no other (PayloadFetcher).
//
// A member of the Store; the Engine outlives it. is_reachable(): any thread; does not block.
// stop(): the thread that stops the store; it waits for a question that is under way, for some
// seconds at most.
class Reachability {
 public:
  explicit Reachability(Engine& engine) : engine_(engine) {}
  ~Reachability() { stop(); }
  Reachability(const Reachability&) = delete;
  Reachability& operator=(const Reachability&) = delete;

  bool is_reachable() const { return is_reachable_; }
  // Called after a reading of payloads of this batch had no reply in time, or lost the connection.
  // Asks the short question, which blocks for a second, or until `stop`; if it must connect first,
  // for some seconds longer. If the thread cannot be started, the call has no effect: the next
  // reading tries for itself.
  void note_away(std::uint64_t batch, const std::stop_token& stop = {}) LOCKSLEY_EXCLUDES(mutex_);
  // Ends the thread. Later calls of note_away() start none.
  void stop() LOCKSLEY_EXCLUDES(mutex_);

 private:
  void run() LOCKSLEY_EXCLUDES(mutex_);
  // Asks for a payload that never exists. The question waits for a lock of the table, too, so a
  // locked table counts as unreachable.
  bool replies(std::uint64_t batch, std::chrono::milliseconds patience, const std::stop_token& stop) const;

  Engine& engine_;
  std::atomic<bool> is_reachable_ = true;
  Mutex mutex_;
  CondVar changed_;
  std::uint64_t batch_ LOCKSLEY_GUARDED_BY(mutex_) = 0;
  bool stopping_ LOCKSLEY_GUARDED_BY(mutex_) = false;
  std::thread thread_ LOCKSLEY_GUARDED_BY(mutex_);
};

}  // namespace locksley::daemon

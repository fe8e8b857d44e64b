// The end of the daemon, for batches.
#pragma once

#include <functional>

#include "daemon/base/loop/io_thread.h"
#include "daemon/base/time.h"
#include "daemon/server/records/registry.h"

namespace locksley::daemon {

class Slices;
class StoredBatches;
class Streams;

// Drains the batches when the daemon ends: closes open batches that are not stored, and reports
// when no batch has work left that the store would not keep for the next start. Meanwhile Admission
// refuses new jobs.
//
// Owned by Batches. The I/O thread only. Nothing blocks or fails.
class Drain {
 public:
  Drain(Registry& registry, const StoredBatches& stored, Streams& streams, Slices& slices)
      : registry_(registry), stored_(stored), streams_(streams), slices_(slices) {}
  Drain(const Drain&) = delete;
  Drain& operator=(const Drain&) = delete;

  // `on_idle` is called once, within the call or later.
  void begin(std::function<void()> on_idle) LOCKSLEY_REQUIRES(kIoThread);
  // Call it after a change: searches for a batch for which on_idle has to wait, in slices if there
  // are very many, and calls on_idle if there is none. No effect before begin().
  void call_if_idle() LOCKSLEY_REQUIRES(kIoThread);

 private:
  // Checks a few batches. True: there are more to check.
  bool look_for_busy() LOCKSLEY_REQUIRES(kIoThread);

  Registry& registry_;
  const StoredBatches& stored_;
  Streams& streams_;
  Slices& slices_;
  std::function<void()> on_idle_ LOCKSLEY_GUARDED_BY(kIoThread);
  // It starts at the batch for which on_idle_ waited the last time.
  Registry::ActiveSearch search_ LOCKSLEY_GUARDED_BY(kIoThread);
  bool is_searching_ LOCKSLEY_GUARDED_BY(kIoThread) = false;  // in slices
};

}  // namespace locksley::daemon

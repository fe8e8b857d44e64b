// Keeps an engine open while threads read it.
#pragma once

#include <cstddef>

#include "core/sync/mutex.h"
#include "daemon/store/engine/engine.h"

namespace locksley::daemon {

// Lets readings in while an engine is open, and lets the engine close once the last has ended.
//
// A member of an engine. enter() and leave(): any thread; open() and close(): the thread that opens
// and closes the engine. close() blocks until there is no reading; enter() as its `wait` says.
class ReadingGate {
 public:
  // Whether the reading may begin; if so, the caller ends it by leave().
  bool enter(ReadingWait wait) LOCKSLEY_EXCLUDES(mutex_);
  void leave() LOCKSLEY_EXCLUDES(mutex_);
  void open() LOCKSLEY_EXCLUDES(mutex_);
  void close() LOCKSLEY_EXCLUDES(mutex_);

 private:
  mutable Mutex mutex_;
  CondVar changed_;
  bool is_open_ LOCKSLEY_GUARDED_BY(mutex_) = false;
  std::size_t readings_ LOCKSLEY_GUARDED_BY(mutex_) = 0;
};

}  // namespace locksley::daemon

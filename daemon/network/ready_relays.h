// The news of the network threads for the I/O thread.
#pragma once

#include <memory>
#include <vector>

#include "core/pool/worker_stats.h"
#include "core/sync/mutex.h"
#include "daemon/base/loop/io.h"
#include "daemon/base/loop/io_thread.h"
#include "daemon/network/relay.h"

namespace locksley::daemon {

// The news of relays for the I/O thread. One wake-up is for the news of many relays: a network
// thread hands over all news of one round, and wakes the I/O thread unless that is about to poll
// anyway. A wake-up is a post to the io_context, which makes no system call while the I/O thread
// looks for work by itself.
//
// Owned by NetworkThreads. Its network threads end before it, and the io_context runs no more when
// it is destroyed. Each call holds the mutex for an exchange, or for one push per relay. Nothing
// blocks. Only allocation fails.
class ReadyRelays {
 public:
  struct Entry {
    std::shared_ptr<Relay> relay;
    Relay::News news;
  };

  explicit ReadyRelays(IoExecutor executor) : executor_(executor) {}
  ReadyRelays(const ReadyRelays&) = delete;
  ReadyRelays& operator=(const ReadyRelays&) = delete;

  // [any thread] Takes all entries, and leaves none. `waits`: the calling thread's.
  void add(std::vector<Entry>& entries, OwnedCounter& waits) LOCKSLEY_EXCLUDES(mutex_);
  // Adds news from the I/O thread for itself; the connection gets its turn later, as with other
  // news.
  void add(std::shared_ptr<Relay> relay, Relay::News news, OwnedCounter& waits) LOCKSLEY_EXCLUDES(mutex_)
      LOCKSLEY_REQUIRES(kIoThread);

 private:
  void run() LOCKSLEY_EXCLUDES(mutex_) LOCKSLEY_REQUIRES(kIoThread);
  void wake();

  const IoExecutor executor_;
  Mutex mutex_;
  std::vector<Entry> entries_ LOCKSLEY_GUARDED_BY(mutex_);
  bool is_woken_ LOCKSLEY_GUARDED_BY(mutex_) = false;  // run() will come
  std::vector<Entry> taken_ LOCKSLEY_GUARDED_BY(kIoThread);
};

}  // namespace locksley::daemon

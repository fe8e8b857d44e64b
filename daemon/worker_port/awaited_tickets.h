// The replies to SETTLE that wait until the store has written their results.
#pragma once

#include <atomic>
#include <deque>
#include <utility>

#include "core/base/histogram.h"
#include "core/base/job.h"
#include "daemon/store/store.h"
#include "daemon/worker_port/link_thread.h"
#include "daemon/workers/worker_link.h"

namespace locksley::daemon {

// Tells the link which results are written, and the I/O thread whether replies wait for that. It
// measures how long they wait.
//
// Owned by the LinkService; the store outlives it. The link thread, except where it says otherwise.
// Nothing blocks. Only allocation fails.
class AwaitedTickets {
 public:
  // `store`: null: no reply ever waits.
  explicit AwaitedTickets(Store* store) : store_(store) {}
  AwaitedTickets(const AwaitedTickets&) = delete;
  AwaitedTickets& operator=(const AwaitedTickets&) = delete;

  // [any thread] Whether a reply waits for the store. If not, LinkService::store_advanced() need
  // not be called.
  bool awaits_store() const {
    // [link-awaits-store] seq_cst: pairs with the store's ticket. The link sets the flag before it
    // checks whether the ticket is written; the I/O thread reads the flag after the ticket was
    // written. So one of the two sees the other.
    return awaits_store_.load();
  }
  // Commands of the link may have recorded results.
  void after_link(WorkerLink& link) LOCKSLEY_REQUIRES(kLinkThread);
  // Tells the link which writes the store has made. Needs a store.
  void note_written(WorkerLink& link) LOCKSLEY_REQUIRES(kLinkThread);
  // The time from a SETTLE to its reply.
  const DurationHistogram& settle_time() const { return settle_time_; }

 private:
  Store* const store_;
  // Tickets for which replies wait, and since when.
  std::deque<std::pair<Ticket, Nanoseconds>> settles_ LOCKSLEY_GUARDED_BY(kLinkThread);
  DurationHistogram settle_time_;
  std::atomic<bool> awaits_store_{false};  // written by the link thread, read by the I/O thread
};

}  // namespace locksley::daemon

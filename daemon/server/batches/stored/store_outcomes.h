// The outcomes of the store's writes, passed on in order.
#pragma once

#include <asio/io_context.hpp>
#include <deque>
#include <functional>
#include <utility>

#include "daemon/base/loop/io_thread.h"
#include "daemon/base/loop/sliced_work.h"
#include "daemon/base/loop/slices.h"
#include "daemon/base/time.h"
#include "daemon/store/engine/writer_thread.h"
#include "daemon/store/write/ticket.h"

namespace locksley::daemon {

class AwaitedDeletions;
class IoMailbox;
class Retention;
class StoredBatches;
class WriteCharges;

// Brings the outcomes of the store's writes to the I/O thread, and acts on one after the other: the
// batches first, then the charges and deletions that waited for it, then the replies
// (on_stored()). It acts in slices on an outcome about very many batches or replies; outcomes that
// come meanwhile wait.
//
// Owned by Batches. The I/O thread only, except add(). Nothing blocks or fails.
class StoreOutcomes {
 public:
  struct Parts {
    asio::io_context& io;
    Slices& slices;
    StoredBatches& stored;
    WriteCharges& charges;
    AwaitedDeletions& deletions;
    Retention& retention;
    std::function<void()> after_outcome;  // called when everything has acted on an outcome
  };
  explicit StoreOutcomes(Parts parts);
  StoreOutcomes(const StoreOutcomes&) = delete;
  StoreOutcomes& operator=(const StoreOutcomes&) = delete;

  // Called with each outcome, after the batches. The function works until about the given instant.
  // False: it is not done; then it is called again with the same outcome, before any later one.
  using OnStored = std::function<bool(const Outcome&, Instant until)>;
  void on_stored(OnStored on_outcome) LOCKSLEY_REQUIRES(kIoThread) { on_stored_ = std::move(on_outcome); }
  // [the store's thread] `written` is called with the ticket of each group that is on the disk,
  // before the I/O thread learns of it. Once, before the store starts.
  void on_written(std::function<void(Ticket)> written) { on_written_ = std::move(written); }

  // The store has an outcome.
  void add(Outcome outcome) LOCKSLEY_REQUIRES(kStoreWriter);

 private:
  struct Pending {
    Outcome outcome;
    bool is_known_to_batches = false;  // else on_stored_ waits
  };
  // Acts on the outcome at once, as far as a slice allows; settle_until() does the rest in slices.
  void settle(Outcome outcome) LOCKSLEY_REQUIRES(kIoThread);
  // Acts on pending outcomes until about `until`. True: none is left.
  bool settle_until(Instant until) LOCKSLEY_REQUIRES(kIoThread);
  // True: all is done.
  bool settle_some(Pending& pending, Instant until) LOCKSLEY_REQUIRES(kIoThread);

  const Parts parts_;
  IoMailbox& mailbox_;
  std::function<void(Ticket)> on_written_;  // constant once the store has started
  OnStored on_stored_ LOCKSLEY_GUARDED_BY(kIoThread);
  std::deque<Pending> pending_ LOCKSLEY_GUARDED_BY(kIoThread);  // the outcomes that are not settled
  SlicedWork settling_ LOCKSLEY_GUARDED_BY(kIoThread);          // settle_until()
};

}  // namespace locksley::daemon

// The timer for deadlines, delays, retries and the end of retention of batches.
#pragma once

#include <asio/io_context.hpp>
#include <cstdint>
#include <functional>

#include "daemon/base/loop/io.h"
#include "daemon/base/loop/io_thread.h"
#include "daemon/base/loop/sliced_work.h"
#include "daemon/base/loop/slices.h"
#include "daemon/base/time.h"
#include "daemon/server/records/batch_record.h"
#include "daemon/server/records/registry.h"

namespace locksley::daemon {

// The one timer of all batches: armed for the earliest instant in the registry's DueQueue or among
// the retained batches, and for no other, so that the thread does not wake while nothing is due.
// The due actions run in slices, so that connections have their turns in between, even when a
// million batches are to be forgotten at once.
//
// Owned by Batches. The I/O thread only. Nothing blocks or fails.
class DueTimer {
 public:
  // `act` does the due action of a batch, which is no longer scheduled then. `forget` is for
  // retained batches.
  struct Actions {
    std::function<void(BatchRecord&, Due)> act;
    std::function<void(std::uint64_t sequence)> forget;
  };
  DueTimer(asio::io_context& io, Slices& slices, Registry& registry, Actions actions);
  DueTimer(const DueTimer&) = delete;
  DueTimer& operator=(const DueTimer&) = delete;

  // Called after every change of a due instant.
  void arm() LOCKSLEY_REQUIRES(kIoThread);
  // Does at once what is scheduled for the batch under `due`. Needs: it is scheduled. The batch may
  // be forgotten by the end of the call, unless the caller keeps it.
  void take(BatchRecord& record, Due due) LOCKSLEY_REQUIRES(kIoThread);

 private:
  Instant next_due() LOCKSLEY_REQUIRES(kIoThread);
  void take_soon() LOCKSLEY_REQUIRES(kIoThread);
  // Does due actions until about `until`. True if nothing is due any more.
  bool take_due(Instant until) LOCKSLEY_REQUIRES(kIoThread);

  Registry& registry_;
  const Actions actions_;
  Timer timer_ LOCKSLEY_GUARDED_BY(kIoThread);
  Instant armed_for_ LOCKSLEY_GUARDED_BY(kIoThread) = kNever;
  SlicedWork taking_ LOCKSLEY_GUARDED_BY(kIoThread);  // take_due()
};

}  // namespace locksley::daemon

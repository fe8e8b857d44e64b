// Where a batch records its steps: a BatchJournal over the store's groups. It also counts how many
// bytes of each user wait for the disk.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "core/batch/batch_journal.h"
#include "core/sync/mutex.h"
#include "daemon/store/write/group_commit.h"
#include "daemon/store/write/ticket.h"

namespace locksley::daemon {

class Engine;
class EngineReading;

// Counts the bytes of steps that wait for the disk. The count is exact while the steps are in at
// most two groups: one that is written, and the next one, which gathers. Otherwise it is too high,
// never too low.
// Guarded by the mutex of a PendingOfUser.
class PendingSteps {
 public:
  // A step is in the group of `ticket`. `written`, here and below: GroupCommit::written().
  void add(std::size_t bytes, Ticket ticket, Ticket written) {
    drop(written);
    if (newest_.bytes != 0 && newest_.ticket != ticket) {
      // Two threads may add their steps out of the order of the tickets.
      earlier_ = {.ticket = std::max(earlier_.ticket, newest_.ticket),
                  .bytes = earlier_.bytes + newest_.bytes};
      newest_.bytes = 0;
    }
    newest_ = {.ticket = ticket, .bytes = newest_.bytes + bytes};
  }
  std::size_t bytes(Ticket written) {
    drop(written);
    return earlier_.bytes + newest_.bytes;
  }

 private:
  void drop(Ticket written) {
    if (earlier_.ticket <= written) earlier_.bytes = 0;
    if (newest_.ticket <= written) newest_.bytes = 0;
  }

  struct Group {
    Ticket ticket = 0;
    std::size_t bytes = 0;
  };
  Group newest_;
  Group earlier_;  // all groups before it
};

// Counts the bytes of one user that wait for the disk: for each batch, and in total for the batches
// with few such bytes (GroupCommit::kFewPending).
//
// Owned by the journals of the user's batches; the store keeps it as well. Any thread. Holds a
// mutex for some nanoseconds, and does not block otherwise.
class PendingOfUser {
 public:
  // A step of the batch is in the group of `ticket`.
  void add(PendingSteps& batch, std::size_t bytes, Ticket ticket, Ticket written) LOCKSLEY_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    batch.add(bytes, ticket, written);
    if (batch.bytes(written) <= GroupCommit::kFewPending) of_few_.add(bytes, ticket, written);
  }
  GroupCommit::Pending bytes(PendingSteps& batch, Ticket written) LOCKSLEY_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return {.of_batch = batch.bytes(written), .of_user = of_few_.bytes(written)};
  }

 private:
  Mutex mutex_;
  PendingSteps of_few_ LOCKSLEY_GUARDED_BY(mutex_);
};

// The journal of one batch in the store. Owned by its batch; `group` and `engine` outlive it. Any
// thread. record() does not block. wait_for_room() blocks while too many results wait for the disk,
// and many of these belong to this batch or its user (GroupCommit::wait_for_room()).
// read_rows() blocks on the disk; it throws std::runtime_error if the rows cannot be read.
class StoredJournal final : public BatchJournal {
 public:
  // `first_marked`: the first batch that has marks (mark_key()) for all its results that are not
  // ok. `user`: counts the bytes of the batch's user that wait for the disk.
  StoredJournal(GroupCommit& group, Engine& engine, std::uint64_t sequence, std::uint64_t first_marked,
                PayloadParts parts, std::shared_ptr<PendingOfUser> user)
      : group_(group),
        engine_(engine),
        sequence_(sequence),
        first_marked_(first_marked),
        parts_(parts),
        user_(std::move(user)) {}

  void record(BatchStep step) override;
  void wait_for_room() override;
  std::uint64_t read_rows(std::uint64_t first, std::uint64_t max_rows,
                          const std::function<bool(const ResultRow&)>& visit) override;
  std::uint64_t read_others(std::uint64_t first, std::uint64_t end, const VisitOther& visit) override;

 private:
  // read_rows() for results inside the row of the batch's end; none: there are none inside.
  std::optional<std::uint64_t> read_rows_inside(const EngineReading& reading, std::uint64_t first,
                                                std::uint64_t max_rows,
                                                const std::function<bool(const ResultRow&)>& visit) const;

  GroupCommit& group_;
  Engine& engine_;
  const std::uint64_t sequence_;
  const std::uint64_t first_marked_;
  const PayloadParts parts_;
  const std::shared_ptr<PendingOfUser> user_;
  PendingSteps pending_;  // for the functions of user_ alone
};

}  // namespace locksley::daemon

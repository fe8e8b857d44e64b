#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

#include "core/batch/batch_journal.h"
#include "core/sync/mutex.h"
#include "daemon/store/write/group_commit.h"
#include "daemon/store/write/ticket.h"

namespace locksley::daemon {

class Engine;
class EngineReading;

// About how many bytes of the steps of one batch wait for the disk. Exact while these are in two
// groups, since one is written while the next one gathers; never less. A member of its journal,
// guarded by its mutex.
class PendingSteps {
 public:
  // A step is in the group of `ticket`. `written`, here and below: GroupCommit::written().
  void add(std::size_t bytes, Ticket ticket, Ticket written) {
    drop(written);
    if (newest_.bytes != 0 && newest_.ticket != ticket) {
      earlier_ = {.ticket = newest_.ticket, .bytes = earlier_.bytes + newest_.bytes};
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
  Group earlier_;  // all before it
};

// The journal of one batch in the store. Owned by its batch; `group` and `engine` outlive it. Any
// thread. record() does not block. wait_for_room() blocks while too many results wait for the disk,
// and many of them are those of this batch (GroupCommit::wait_for_room()).
// read_rows() blocks on the disk; it throws std::runtime_error if the rows cannot be read.
class StoredJournal final : public BatchJournal {
 public:
  // `first_marked`: the first batch that has marks (mark_key()) for all its results that are not
  // ok.
  StoredJournal(GroupCommit& group, Engine& engine, std::uint64_t sequence, std::uint64_t first_marked,
                PayloadParts parts)
      : group_(group), engine_(engine), sequence_(sequence), first_marked_(first_marked), parts_(parts) {}

  void record(BatchStep step) override LOCKSLEY_EXCLUDES(mutex_);
  void wait_for_room() override LOCKSLEY_EXCLUDES(mutex_);
  std::uint64_t read_rows(std::uint64_t first, std::uint64_t max_rows,
                          const std::function<bool(const ResultRow&)>& visit) override;
  std::uint64_t read_others(std::uint64_t first, std::uint64_t end, const VisitOther& visit) override;

 private:
  // Of a batch whose results are inside the row of its end; none: they are not.
  std::optional<std::uint64_t> read_rows_inside(const EngineReading& reading, std::uint64_t first,
                                                std::uint64_t max_rows,
                                                const std::function<bool(const ResultRow&)>& visit) const;

  GroupCommit& group_;
  Engine& engine_;
  const std::uint64_t sequence_;
  const std::uint64_t first_marked_;
  const PayloadParts parts_;

  Mutex mutex_;
  PendingSteps pending_ LOCKSLEY_GUARDED_BY(mutex_);
};

}  // namespace locksley::daemon

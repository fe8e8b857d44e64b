#pragma once

#include <cstdint>

#include "core/batch/batch_journal.h"
#include "daemon/store/group_commit.h"

namespace locksley::daemon {

class Database;

// The journal of one batch in the store. Owned by its batch; `group` and `database` outlive it. Any
// thread. record() does not block. wait_for_room() blocks while too many results wait for the disk.
// read_rows() blocks on the disk; it throws std::runtime_error if the rows cannot be read.
class StoredJournal final : public BatchJournal {
 public:
  StoredJournal(GroupCommit& group, Database& database, std::uint64_t sequence, PayloadParts parts)
      : group_(group), database_(database), sequence_(sequence), parts_(parts) {}

  void record(BatchStep step) override;
  void wait_for_room() override;
  std::uint64_t read_rows(std::uint64_t first, std::uint64_t max_rows,
                          const std::function<bool(const ResultRow&)>& visit) override;
  std::uint64_t read_others(std::uint64_t first, std::uint64_t end, const VisitOther& visit) override;

 private:
  GroupCommit& group_;
  Database& database_;
  const std::uint64_t sequence_;
  const PayloadParts parts_;
};

}  // namespace locksley::daemon

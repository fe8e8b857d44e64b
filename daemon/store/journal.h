#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "core/batch/batch_journal.h"
#include "daemon/store/group_commit.h"

namespace locksley::daemon {

class Engine;
class EngineReading;

// The journal of one batch in the store. Owned by its batch; `group` and `engine` outlive it. Any
// thread. record() does not block. wait_for_room() blocks while too many results wait for the disk.
// read_rows() blocks on the disk; it throws std::runtime_error if the rows cannot be read.
class StoredJournal final : public BatchJournal {
 public:
  // `first_marked`: the first batch that has marks (mark_key()) for all its results that are not ok.
  StoredJournal(GroupCommit& group, Engine& engine, std::uint64_t sequence, std::uint64_t first_marked,
                PayloadParts parts)
      : group_(group), engine_(engine), sequence_(sequence), first_marked_(first_marked), parts_(parts) {}

  void record(BatchStep step) override;
  void wait_for_room() override;
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
};

}  // namespace locksley::daemon

// Reads from the store which jobs of a batch have failed.
#pragma once

#include <cstdint>
#include <expected>
#include <memory>
#include <string>
#include <vector>

#include "core/base/index_range.h"
#include "core/batch/batch.h"

namespace locksley::daemon {

class Engine;
class Reader;

// The jobs of a batch that have failed: disjoint ranges, in any order, and how many jobs these are.
// Immutable; any thread may drop the last reference: the store's reader frees the ranges, since
// they may be millions. The Store outlives it.
struct FailedJobList {
  std::shared_ptr<const std::vector<IndexRange>> ranges;
  std::uint64_t jobs = 0;
};

// Reads the rows of failed jobs of one batch, a part at a time, so that other readers wait for one
// part only.
//
// Owned by the tasks of the Reader that read the parts; the Store outlives it. One thread at a
// time, any thread; each part blocks on the disk. If the rows change meanwhile, the read rows are
// invalid: the caller compares BatchStatus::retry_rounds.
class FailedJobsReading {
 public:
  FailedJobsReading(Engine& engine, Reader& reader, std::uint64_t sequence)
      : engine_(engine), reader_(reader), sequence_(sequence) {}

  // Reads the next part, for a millisecond or two. True: that was the last. The error is for the
  // client.
  std::expected<bool, std::string> read_part();
  // The list that was read. Needs: the last read_part() returned true. Call it once.
  FailedJobList take();

 private:
  Engine& engine_;
  Reader& reader_;
  const std::uint64_t sequence_;
  std::uint64_t next_row_ = 0;
  std::uint64_t jobs_ = 0;
  std::unique_ptr<std::vector<IndexRange>> ranges_ = std::make_unique<std::vector<IndexRange>>();
};

}  // namespace locksley::daemon

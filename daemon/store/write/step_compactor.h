#pragma once

#include <cstdint>
#include <unordered_map>

#include "daemon/store/engine/engine.h"
#include "daemon/store/engine/writer_thread.h"

namespace locksley::daemon {

// Merges the steps of a batch that has very many into one row, so that a batch that is open for
// weeks takes no more rows than it has ranges of jobs, and a start reads no more than that.
//
// A batch is due after so many steps, and again after as many, or more while its merged row is
// large: so each step is rewritten about twice, however long the batch goes on.
//
// Owned by GroupCommit; the writer's thread. Reads the engine, at once at most kMostRead rows, or
// as many as the merged row is large. If that fails, or if the rows contradict one another, nothing
// is merged: the next start says what is wrong.
class StepCompactor {
 public:
  static constexpr std::uint64_t kSteps = 1024;           // guess: read in a millisecond
  static constexpr std::uint64_t kMostRead = 8 * kSteps;  // of a store in which no steps were merged

  // `steps`: after how many steps a batch is due; kSteps, or fewer in tests.
  StepCompactor(Engine& engine, std::uint64_t steps) : engine_(engine), steps_(steps) {}

  // Before step `number` is written, and before this group writes anything else of the batch: adds
  // to `into` the row that replaces the steps before it, if the batch is due.
  void compact_if_due(std::uint64_t sequence, std::uint64_t number, Engine::Group& into)
      LOCKSLEY_REQUIRES(kStoreWriter);
  // Its steps are deleted, or begin anew.
  void forget(std::uint64_t sequence) LOCKSLEY_REQUIRES(kStoreWriter) {
    if (!next_.empty()) next_.erase(sequence);
  }

 private:
  Engine& engine_;
  const std::uint64_t steps_;
  // The number of the step at which a batch is due again; only batches that were due once.
  std::unordered_map<std::uint64_t, std::uint64_t> next_ LOCKSLEY_GUARDED_BY(kStoreWriter);
};

}  // namespace locksley::daemon

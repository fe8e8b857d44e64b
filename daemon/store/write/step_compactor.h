// Decides which batches' steps are merged, and when.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>

#include "daemon/store/engine/engine.h"
#include "daemon/store/engine/writer_thread.h"
#include "daemon/store/write/step_merger.h"

namespace locksley::daemon {

// Merges the steps of a batch that has very many into one row, so that a batch that is open for
// weeks takes no more rows than it has ranges of jobs, and a start reads no more than that.
//
// A batch is due after kSteps steps, and again after as many more, once these have as many bytes as
// its merged row: so each byte is rewritten about twice, however long the batch goes on and however
// scattered its jobs end.
//
// Owned by GroupCommit; the writer's thread. That thread itself reads and merges steps of at most
// kBytesAtOnce together. If they have more bytes, a thread of its own (StepMerger) merges them, and
// the writer only puts the row into one of its next groups, because clients wait for all that the
// writer does. If the engine cannot be read, or if the rows contradict one another, nothing is
// merged: the next start reports the error.
class StepCompactor {
 public:
  static constexpr std::uint64_t kSteps = 1024;  // guess: read and merged in a millisecond
  // Guess: the bytes of kSteps steps with one range each; merged in at most some 3 ms.
  static constexpr std::uint64_t kBytesAtOnce = 64U << 10;

  // `steps`: after how many steps a batch is due; kSteps, or fewer in tests. `bytes_at_once`:
  // kBytesAtOnce, or fewer in tests.
  StepCompactor(Engine& engine, std::uint64_t steps, std::uint64_t bytes_at_once = kBytesAtOnce)
      : engine_(engine), steps_(steps), bytes_at_once_(bytes_at_once), merger_(engine) {}

  // Called before step `number` is written, and before this group writes anything else of the
  // batch. If the batch is due: adds to `into` the row that replaces the steps before it, or asks
  // the StepMerger for that row if they have many bytes.
  void compact_if_due(std::uint64_t sequence, std::uint64_t number, Engine::Group& into)
      LOCKSLEY_REQUIRES(kStoreWriter);
  // Called when a step is written, as a row of so many bytes.
  void wrote(std::uint64_t sequence, std::size_t bytes) LOCKSLEY_REQUIRES(kStoreWriter) {
    if (!due_.empty()) count(sequence, bytes);
  }
  // At the end of a group: adds to it the row that was merged meanwhile, if there is one.
  void put_merged(Engine::Group& into) LOCKSLEY_REQUIRES(kStoreWriter);
  // Called when the steps of the batch are deleted, or begin anew.
  void forget(std::uint64_t sequence) LOCKSLEY_REQUIRES(kStoreWriter);

 private:
  struct Due {
    std::uint64_t next = 0;       // due at this step, or at a later one,
    std::uint64_t row_bytes = 0;  // once the steps after the last merged row have as many bytes as that row
    std::uint64_t bytes = 0;      // of these steps
    bool is_asked = false;        // merger_ was asked for it
  };
  void count(std::uint64_t sequence, std::size_t bytes) LOCKSLEY_REQUIRES(kStoreWriter);
  static void put(const MergedSteps& merged, Engine::Group& into);

  Engine& engine_;
  const std::uint64_t steps_;
  const std::uint64_t bytes_at_once_;
  // Only batches that have been due.
  std::unordered_map<std::uint64_t, Due> due_ LOCKSLEY_GUARDED_BY(kStoreWriter);
  std::uint64_t asked_ LOCKSLEY_GUARDED_BY(kStoreWriter) = 0;  // how many of these are is_asked
  StepMerger merger_ LOCKSLEY_GUARDED_BY(kStoreWriter);
};

}  // namespace locksley::daemon

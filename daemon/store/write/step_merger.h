// The merging of steps, and a thread for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <thread>

#include "core/sync/mutex.h"
#include "daemon/store/engine/engine.h"

namespace locksley::daemon {

// One row in place of some steps of a batch.
struct MergedSteps {
  std::uint64_t sequence = 0;
  std::uint64_t first = 0;   // the steps have the numbers from this one
  std::uint64_t number = 0;  // to this one, which is also the number of the row
  std::string row;           // empty: there is nothing to merge, or the rows contradict one another
  bool has_more = false;     // there are more steps than `most` bytes
};

// The bytes of a step's row in the index, with its key.
inline constexpr std::uint64_t kStepKeyBytes = 1 + 2 * sizeof(std::uint64_t);
constexpr std::uint64_t bytes_of_step(std::size_t value) { return kStepKeyBytes + value; }

// Merges the steps of a batch below number `below`. If these have more than `most` bytes: kLeave
// merges nothing; kMergeFirst merges only the first ones, of about so many bytes, or of twice the
// bytes of the first row if that is more. None if the engine is not open. Any thread; blocks on the
// disk, and takes some 50 ns for each byte.
enum class IfMore : std::uint8_t { kLeave, kMergeFirst };
std::optional<MergedSteps> merge_steps(Engine& engine, std::uint64_t sequence, std::uint64_t below,
                                       std::uint64_t most, IfMore if_more);

// A thread that merges steps for the writer's thread, which must not be busy for long. It serves
// requests one after the other, each once, in the order in which they were made. It begins with a
// request once the result of the one before has been taken: so merged rows that are not yet written
// take the memory of one row.
//
// Owned by StepCompactor; the engine outlives it. All calls come from the writer's thread. None
// blocks, except the destructor, which waits for the running merge. The thread starts with the
// first request, and sleeps while there is none.
class StepMerger {
 public:
  explicit StepMerger(Engine& engine) : engine_(engine) {}
  ~StepMerger();
  StepMerger(const StepMerger&) = delete;
  StepMerger& operator=(const StepMerger&) = delete;

  // Requests a merge of the batch's steps below number `below`, which are committed. False: the
  // thread could not be started.
  bool ask(std::uint64_t sequence, std::uint64_t below) LOCKSLEY_EXCLUDES(mutex_);
  // Drops the request for this batch, whether it is merged already or not.
  void withdraw(std::uint64_t sequence) LOCKSLEY_EXCLUDES(mutex_);
  // Takes the next merged row out. None: there is none yet.
  std::optional<MergedSteps> take() LOCKSLEY_EXCLUDES(mutex_);

 private:
  struct Wanted {
    std::uint64_t sequence;
    std::uint64_t below;
  };
  void run() LOCKSLEY_EXCLUDES(mutex_);

  Engine& engine_;

  Mutex mutex_;
  CondVar changed_;
  std::deque<Wanted> wanted_ LOCKSLEY_GUARDED_BY(mutex_);
  std::optional<std::uint64_t> at_work_ LOCKSLEY_GUARDED_BY(mutex_);  // none: idle, or withdrawn
  std::optional<MergedSteps> done_ LOCKSLEY_GUARDED_BY(mutex_);
  bool stopping_ LOCKSLEY_GUARDED_BY(mutex_) = false;

  std::thread thread_;  // last: it uses all of the above
};

}  // namespace locksley::daemon

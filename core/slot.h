// One slot of a lane whose jobs are run by something else than a pool's worker: a process, say.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/batch.h"
#include "core/lane.h"
#include "core/result_writer.h"

namespace locksley {

// What a job is, for whoever runs it. The views live until the turn ends.
struct SlotJob {
  std::uint64_t index = 0;
  std::string_view payload;
};

// An executor without a thread: takes a turn of the lane's ring, hands out its jobs, takes their ends, and
// settles.
//
//   if (slot.begin_turn(64)) { while (auto job = slot.start_job()) send(*job); }
//   ... later, in the order of the starts ...   slot.end_job(JobStatus::ok, output);  slot.publish();
//   ... when nothing is out ...                 slot.end_turn();
//
// Jobs end in the order in which they were started. What was started and did not end when the turn does, goes
// back to the ring like what was not started: it will run again.
//
// Owned by whoever runs the jobs; the lane outlives it. One thread at a time. The time that is charged to the
// batch is that from begin_turn() to end_turn(): the slot was its alone. Calls block where a batch's payloads
// or its journal do.
class Slot {
 public:
  explicit Slot(Lane& lane) : lane_(lane) {}
  ~Slot();
  Slot(const Slot&) = delete;
  Slot& operator=(const Slot&) = delete;

  // Claims a turn of at most `most` jobs, whose payloads have about `most_bytes` at most. False: there is
  // nothing to claim. A payload that cannot be had is an error of its job, and ends it here.
  bool begin_turn(std::uint64_t most, std::size_t most_bytes);
  bool has_turn() const { return batch_ != nullptr; }
  // Of the turn.
  Batch& batch() const { return *batch_; }

  // The next job, from now on running. None: all of the turn have been started, or no more are to be, because
  // the batch is to stop or paused.
  std::optional<SlotJob> start_job();
  // Started and not ended.
  std::uint64_t running_jobs() const { return started_ - ended_; }
  // The oldest has ended.
  void end_job(JobStatus status, std::string_view output);
  // Lets everybody see what has ended.
  void publish();
  // Settles. All that did not end goes back.
  void end_turn();

 private:
  void fetch(std::uint64_t most, std::size_t most_bytes);
  void after_publication(ResultWriter::Outcome outcome);

  Lane& lane_;
  ResultWriter writer_;
  std::shared_ptr<Batch> batch_;  // of the turn; null: there is none
  IndexRange range_;              // of the turn
  Charge charged_;
  Nanoseconds began_{};
  Nanoseconds job_began_{};  // of the oldest that runs: its start, or the end of the one before
  // Counted from range_.low:
  std::uint64_t fetched_ = 0;
  std::uint64_t started_ = 0;
  std::uint64_t ended_ = 0;
  std::vector<std::string_view> payloads_;
  std::string scratch_;
};

}  // namespace locksley

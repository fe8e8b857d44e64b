// A lane whose jobs run in processes: its slots, and when they get jobs.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/batch/handler.h"
#include "core/lane/external_executor.h"
#include "core/lane/lane.h"
#include "daemon/base/rate_gate.h"
#include "daemon/process/process_loop.h"
#include "daemon/process/program.h"
#include "daemon/process/rate_limiter.h"

namespace locksley::daemon {

// A place in a lane, in which one process runs at a time. Owned by its lane, for the lane's whole
// life, because Asio may hold callbacks for it. The process thread only, which the compiler checks;
// nothing blocks. A process that cannot be started, or that fails, ends its job with that error.
class ProcessSlot {
 public:
  virtual ~ProcessSlot() = default;
  virtual Program::Kind kind() const = 0;
  // Needs: not is_busy(). Takes a turn of at most `most` jobs and starts them. Returns how many it
  // has started; 0: the lane has no jobs. If is_busy() afterwards, the slot will call
  // ProcessLane::slot_is_free() later.
  virtual std::uint64_t begin(std::uint64_t most) LOCKSLEY_REQUIRES(kProcessThread) = 0;
  virtual bool is_busy() const LOCKSLEY_REQUIRES(kProcessThread) = 0;
  // Ends the process if the batch whose jobs it runs has been cancelled. Does nothing if there is
  // none.
  virtual void check_cancelled() LOCKSLEY_REQUIRES(kProcessThread) = 0;
  // Needs: not is_busy(). Ends the slot's process, if it has one. The slot is busy until it has
  // ended.
  virtual void release_process() LOCKSLEY_REQUIRES(kProcessThread) = 0;
  // The lane has another program: ends a pause that the failures of the old one have caused.
  virtual void reset_failures() LOCKSLEY_REQUIRES(kProcessThread) = 0;
  // The daemon shuts down: asks the process to end. Its jobs return to the ring when it has.
  virtual void stop() LOCKSLEY_REQUIRES(kProcessThread) = 0;
  // The process has not ended in time: the slot forgets it, and its jobs return to the ring at
  // once.
  virtual void abandon() LOCKSLEY_REQUIRES(kProcessThread) = 0;
  // Whether the slot has no process.
  virtual bool is_stopped() const LOCKSLEY_REQUIRES(kProcessThread) = 0;
};

// The lane of one handler's name. The lane, its batches and its counters outlive every change of
// the configuration; the program that runs its jobs may change.
//
// Owned by HandlerLanes; outlives its batches, and the process thread. lane(), name(), is_at_rate()
// and set_program(): any thread; the rest: the process thread, which the compiler checks. Nothing
// blocks. A program that cannot be started ends its jobs with an error.
class ProcessLane {
 public:
  ProcessLane(ProcessLoop& loop, std::string name, const FairRing::Options& options);
  ~ProcessLane();
  ProcessLane(const ProcessLane&) = delete;
  ProcessLane& operator=(const ProcessLane&) = delete;

  Lane& lane() { return lane_; }
  const std::string& name() const { return lane_.name(); }
  // Whether jobs wait because of the configuration's `rate`.
  bool is_at_rate() const {
    // [lane-at-rate] relaxed: for display only; nothing follows from a stale value.
    return at_rate_.load(std::memory_order_relaxed);
  }
  // Later jobs are started with this program; running ones end with the program that they began
  // with. Null, as at first: no job is started. Takes effect on the process thread, soon.
  void set_program(std::shared_ptr<const Program> program);

  ProcessLoop& loop() { return loop_; }
  // Not null while a slot begins.
  const std::shared_ptr<const Program>& program() const LOCKSLEY_REQUIRES(kProcessThread) { return program_; }
  // Limits the log lines about processes that end unexpectedly: of all slots together.
  RateGate& end_lines() LOCKSLEY_REQUIRES(kProcessThread) { return end_lines_; }
  // A slot calls it when it is no longer busy.
  void slot_is_free(ProcessSlot& slot) LOCKSLEY_REQUIRES(kProcessThread);
  // Asks all processes to end, and starts no more.
  void stop() LOCKSLEY_REQUIRES(kProcessThread);
  // Forgets the processes that have not ended since stop(); their jobs return to the ring.
  void abandon() LOCKSLEY_REQUIRES(kProcessThread);
  bool is_stopped() const LOCKSLEY_REQUIRES(kProcessThread);

 private:
  // [any thread] Posts a call of `what`, unless one is posted already.
  void wake(std::atomic<bool>& is_posted, void (ProcessLane::*what)());
  void take_program(std::shared_ptr<const Program> program) LOCKSLEY_REQUIRES(kProcessThread);
  // Needs: the slot is not busy. Adds it to the free slots, or to the idle ones if the program
  // needs no more.
  void take_back(ProcessSlot& slot) LOCKSLEY_REQUIRES(kProcessThread);
  bool is_wanted(const ProcessSlot& slot) const LOCKSLEY_REQUIRES(kProcessThread);
  // Adds free slots until as many are in use as the program may have.
  void fill() LOCKSLEY_REQUIRES(kProcessThread);
  ProcessSlot& unused_slot(Program::Kind kind) LOCKSLEY_REQUIRES(kProcessThread);
  // Lets free slots begin while there are jobs and the rate allows it.
  void pump() LOCKSLEY_REQUIRES(kProcessThread);
  void check_cancelled() LOCKSLEY_REQUIRES(kProcessThread);
  // Batches whose back-off has ended are served again; the timer pumps when the next one ends.
  void end_backoffs(Nanoseconds until) LOCKSLEY_REQUIRES(kProcessThread);
  void arm_rate_timer() LOCKSLEY_REQUIRES(kProcessThread);
  // While the store has no room: pumps again soon.
  void arm_room_timer() LOCKSLEY_REQUIRES(kProcessThread);
  void post_pump() { wake(pump_is_posted_, &ProcessLane::pump); }

  ProcessLoop& loop_;
  Lane lane_;

  std::shared_ptr<const Program> program_ LOCKSLEY_GUARDED_BY(kProcessThread);
  RateLimiter rate_ LOCKSLEY_GUARDED_BY(kProcessThread){std::nullopt};
  ProcessTimer rate_timer_ LOCKSLEY_GUARDED_BY(kProcessThread);
  bool rate_timer_is_armed_ LOCKSLEY_GUARDED_BY(kProcessThread) = false;
  ProcessTimer backoff_timer_ LOCKSLEY_GUARDED_BY(kProcessThread);
  std::optional<Nanoseconds> backoff_timer_at_ LOCKSLEY_GUARDED_BY(kProcessThread);  // none: not armed
  ProcessTimer room_timer_ LOCKSLEY_GUARDED_BY(kProcessThread);
  bool room_timer_is_armed_ LOCKSLEY_GUARDED_BY(kProcessThread) = false;
  // Never shrinks: Asio may hold callbacks for a slot.
  std::vector<std::unique_ptr<ProcessSlot>> slots_ LOCKSLEY_GUARDED_BY(kProcessThread);
  // The slot used last is the last: its process is warm.
  std::vector<ProcessSlot*> free_ LOCKSLEY_GUARDED_BY(kProcessThread);
  // Slots that are not in use, by kind.
  std::array<std::vector<ProcessSlot*>, Program::kKinds> idle_ LOCKSLEY_GUARDED_BY(kProcessThread);
  std::size_t in_use_ LOCKSLEY_GUARDED_BY(kProcessThread) = 0;  // free or busy
  bool is_stopping_ LOCKSLEY_GUARDED_BY(kProcessThread) = false;
  // The bound is a guess: as many lines as an operator reads.
  RateGate end_lines_ LOCKSLEY_GUARDED_BY(kProcessThread){std::chrono::seconds(1), 5};

  // Set by any thread that posts, cleared by the process thread before it acts.
  std::atomic<bool> pump_is_posted_{false};
  std::atomic<bool> check_is_posted_{false};
  // Written by the process thread, read by any for display.
  std::atomic<bool> at_rate_{false};
};

}  // namespace locksley::daemon

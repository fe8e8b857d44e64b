// A lane whose jobs processes run: its slots, and when they are given work.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/handler.h"
#include "core/lane.h"
#include "core/slot.h"
#include "daemon/process/process_loop.h"
#include "daemon/process/program.h"
#include "daemon/process/rate_limiter.h"
#include "daemon/rate_gate.h"

namespace locksley::daemon {

// One of the lane's slots. Owned by its lane, for as long as that lives; the loop's thread.
class ProcessSlot {
 public:
  virtual ~ProcessSlot() = default;
  virtual Program::Kind kind() const = 0;
  // [free] Takes a turn of at most `most` jobs and begins with it; how many it has started. 0: there is
  // nothing to do. Afterwards is_busy() says whether it has still to do with them, and will call
  // ProcessLane::slot_is_free(), or is free.
  virtual std::uint64_t begin(std::uint64_t most) = 0;
  virtual bool is_busy() const = 0;
  // [not free] The batch that it works on may have been told to stop.
  virtual void look() = 0;
  // [free] Its process, if it has one, is to end. Where that takes a while it is busy until then.
  virtual void let_process_go() = 0;
  // The lane's program is another: what it was waiting for with the old one is over.
  virtual void renew() = 0;
  // The daemon is about to end: what runs is asked to, and goes back to the ring. Soon.
  virtual void stop() = 0;
  // It has not ended soon enough: its process is forgotten, and its jobs go back to the ring.
  virtual void abandon() = 0;
  // It has no process any more.
  virtual bool is_stopped() const = 0;
};

// The lane of one handler's name, whatever program runs its jobs at the moment: the lane, its batches and its
// counters outlive every change of the configuration.
//
// Owned by HandlerLanes; outlives its batches. lane(), is_at_rate() and set_program(): any thread; the rest:
// the loop's.
class ProcessLane {
 public:
  ProcessLane(ProcessLoop& loop, std::string name, const FairRing::Options& options);
  ~ProcessLane();
  ProcessLane(const ProcessLane&) = delete;
  ProcessLane& operator=(const ProcessLane&) = delete;

  Lane& lane() { return lane_; }
  const std::string& name() const { return lane_.name(); }
  // Jobs wait because the configuration's `rate` says so.
  bool is_at_rate() const {
    // [lane-at-rate] relaxed: for people to see.
    return at_rate_.load(std::memory_order_relaxed);
  }
  // Soon, what begins is begun with this; what runs ends as it began. Null: nothing begins any more. Without
  // a program at first.
  void set_program(std::shared_ptr<const Program> program);

  // ---- The loop's thread ----

  ProcessLoop& loop() { return loop_; }
  // While a slot is asked to begin there is one.
  const std::shared_ptr<const Program>& program() const { return program_; }
  // For lines about processes that end in a way that they should not: of all slots together.
  RateGate& end_lines() { return end_lines_; }
  // A slot that was busy is not any more.
  void slot_is_free(ProcessSlot& slot);
  void stop();
  // What stop() has not ended, is let go of.
  void abandon();
  bool is_stopped() const;

 private:
  // From any thread; once for many calls.
  void wake(std::atomic<bool>& is_posted, void (ProcessLane::*what)());
  void take_program(std::shared_ptr<const Program> program);
  // [not busy] It is among the free ones from now on, or rests.
  void take_back(ProcessSlot& slot);
  bool is_wanted(const ProcessSlot& slot) const;
  // As many slots as the program may have are in use.
  void fill();
  ProcessSlot& unused_slot(Program::Kind kind);
  void pump();
  void look();
  void arm_rate_timer();
  void post_pump() { wake(pump_is_posted_, &ProcessLane::pump); }

  ProcessLoop& loop_;
  Lane lane_;
  std::shared_ptr<const Program> program_;
  RateLimiter rate_{std::nullopt};
  ProcessTimer rate_timer_;
  bool rate_timer_is_armed_ = false;
  // Never fewer: what Asio has yet to call for one may come late.
  std::vector<std::unique_ptr<ProcessSlot>> slots_;
  std::vector<ProcessSlot*> free_;                                  // the last used last: its process is warm
  std::array<std::vector<ProcessSlot*>, Program::kKinds> resting_;  // by kind; not in use
  std::size_t in_use_ = 0;                                          // free, or busy
  bool is_stopping_ = false;
  RateGate end_lines_{std::chrono::seconds(1), 5};  // guess: what somebody reads
  std::atomic<bool> pump_is_posted_{false};
  std::atomic<bool> look_is_posted_{false};
  std::atomic<bool> at_rate_{false};  // for people to see
};

}  // namespace locksley::daemon

// A lane whose jobs processes run: its slots, and when they are given work.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/handler.h"
#include "core/lane.h"
#include "core/slot.h"
#include "daemon/process/process_loop.h"
#include "daemon/process/program.h"
#include "daemon/process/rate_limiter.h"

namespace locksley::daemon {

// One of the lane's slots. Owned by its lane; the loop's thread.
class ProcessSlot {
 public:
  virtual ~ProcessSlot() = default;
  // [free] Takes a turn of at most `most` jobs and begins with it; how many it has started. 0: there is
  // nothing to do. Afterwards is_busy() says whether it has still to do with them, and will call
  // ProcessLane::slot_is_free(), or is free.
  virtual std::uint64_t begin(std::uint64_t most) = 0;
  virtual bool is_busy() const = 0;
  // [not free] The batch that it works on may have been told to stop.
  virtual void look() = 0;
  // The daemon is about to end: what runs is asked to, and goes back to the ring. Soon.
  virtual void stop() = 0;
  // It has not ended soon enough: its process is forgotten, and its jobs go back to the ring.
  virtual void abandon() = 0;
  // It has no process any more.
  virtual bool is_stopped() const = 0;
};

// Owned by main(); outlives its batches. lane(), handler(), and is_at_rate(): any thread; the rest: the
// loop's.
class ProcessLane {
 public:
  // What the lanes of commands and of workers differ in.
  using MakeSlot = std::function<std::unique_ptr<ProcessSlot>(ProcessLane&)>;

  ProcessLane(ProcessLoop& loop, std::string name, std::string description, Program program,
              const FairRing::Options& options, const MakeSlot& make_slot);
  ~ProcessLane();
  ProcessLane(const ProcessLane&) = delete;
  ProcessLane& operator=(const ProcessLane&) = delete;

  Lane& lane() { return lane_; }
  Handler& handler() { return handler_; }
  // Jobs wait because the configuration's `rate` says so.
  bool is_at_rate() const {
    // [lane-at-rate] relaxed: for people to see.
    return at_rate_.load(std::memory_order_relaxed);
  }

  // ---- The loop's thread ----

  ProcessLoop& loop() { return loop_; }
  const Program& program() const { return program_; }
  // A slot that was busy is not any more.
  void slot_is_free(ProcessSlot& slot);
  void stop();
  // What stop() has not ended, is let go of.
  void abandon();
  bool is_stopped() const;

 private:
  // From any thread; once for many calls.
  void wake(std::atomic<bool>& is_posted, void (ProcessLane::*what)());
  void pump();
  void look();
  void arm_rate_timer();
  void post_pump() { wake(pump_is_posted_, &ProcessLane::pump); }

  ProcessLoop& loop_;
  const Program program_;
  Handler handler_;
  Lane lane_;
  RateLimiter rate_;
  ProcessTimer rate_timer_;
  bool rate_timer_is_armed_ = false;
  std::vector<std::unique_ptr<ProcessSlot>> slots_;
  std::vector<ProcessSlot*> free_;  // the last used last: its process is warm
  bool is_stopping_ = false;
  std::atomic<bool> pump_is_posted_{false};
  std::atomic<bool> look_is_posted_{false};
  std::atomic<bool> at_rate_{false};  // for people to see
};

}  // namespace locksley::daemon

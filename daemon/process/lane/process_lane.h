// A lane whose jobs run in processes: it claims turns, and gives them slots.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "core/lane/external_executor.h"
#include "core/lane/lane.h"
#include "core/sync/mutex.h"
#include "daemon/base/log/rate_gate.h"
#include "daemon/base/loop/io_thread.h"
#include "daemon/process/lane/lane_handler.h"
#include "daemon/process/lane/lane_slots.h"
#include "daemon/process/lane/process_loop.h"
#include "daemon/process/lane/program.h"

namespace locksley::daemon {

// A lane that handlers share. The lane, its batches and its counters outlive every change of the
// configuration; its handlers, their programs and the slots may change. README.md says who chooses
// what.
//
// Owned by HandlerLanes; outlives its batches, and the process thread. lane(), name(): any thread.
// The functions for the configuration: the I/O thread. The rest: the process thread. The compiler
// checks both thread roles. Nothing blocks. A program that cannot be started ends its jobs with an
// error.
class ProcessLane {
 public:
  // Makes a runner for programs of this kind, which the slot then owns: the lane knows only the
  // interface of runners. Called on the process thread.
  using MakeRunner =
      std::function<std::unique_ptr<ProcessRunner>(ProcessLane& lane, LaneSlot& slot, Program::Kind kind)>;

  ProcessLane(ProcessLoop& loop, std::string name, const FairRing::Options& options, MakeRunner make_runner);
  ~ProcessLane();
  ProcessLane(const ProcessLane&) = delete;
  ProcessLane& operator=(const ProcessLane&) = delete;

  Lane& lane() { return lane_; }
  const std::string& name() const { return lane_.name(); }

  // ---- The configuration. Changes take effect on the process thread: soon, and before jobs that
  // come later start ----

  // Turns of slots that are not wanted any more end as usual, and count until then.
  void set_slots(const config::Lane& settings) LOCKSLEY_REQUIRES(kIoThread);
  std::uint32_t slots() const LOCKSLEY_REQUIRES(kIoThread) { return slot_count_; }
  // Whether the lane has room for `handlers` more handlers. Each has a gate, and a handler that was
  // removed keeps it while it has batches. O(handlers).
  bool has_room_for(std::size_t handlers) const LOCKSLEY_REQUIRES(kIoThread);
  // The handler of this name, made by the first call. Needs: has_room_for(1), if it has to be made.
  LaneHandler& handler(const std::string& name) LOCKSLEY_REQUIRES(kIoThread);
  // Null if the lane has none.
  LaneHandler* find(const std::string& name) const LOCKSLEY_REQUIRES(kIoThread);
  // Later jobs of the handler are started with this program; running jobs end with the program that
  // they began with. Null, as at first: no job is started.
  void set_program(LaneHandler& handler, std::shared_ptr<const Program> program) LOCKSLEY_REQUIRES(kIoThread);
  // Whether remote workers may run the handler's jobs, and how many jobs may run here and there
  // together (0: no limit). Takes effect at once.
  void set_remote(LaneHandler& handler, bool is_remote, std::uint32_t max_running)
      LOCKSLEY_REQUIRES(kIoThread);
  // Replaces the handler's processes one by one. A process is told to end after its turn, and the
  // next process only after this one has ended. Later turns start new processes. Returns how many
  // processes the handler has now.
  std::uint32_t replace_processes(LaneHandler& handler) LOCKSLEY_REQUIRES(kIoThread);

  // ---- For runners ----

  ProcessLoop& loop() { return loop_; }
  // Limits the log lines about processes that end unexpectedly: of all slots together.
  RateGate& end_lines() LOCKSLEY_REQUIRES(kProcessThread) { return end_lines_; }
  // A runner gives back an executor after the end of its turn.
  void take_back(std::unique_ptr<ExternalExecutor> turn) LOCKSLEY_REQUIRES(kProcessThread) {
    executors_.push_back(std::move(turn));
  }
  // The runner's state has changed since begin(), or since the last call.
  void runner_changed(ProcessRunner& runner) LOCKSLEY_REQUIRES(kProcessThread);

  // ---- The end ----

  // Asks all processes to end, and starts no more.
  void stop() LOCKSLEY_REQUIRES(kProcessThread);
  // Forgets the processes that have not ended since stop(); their jobs return to the ring.
  void abandon() LOCKSLEY_REQUIRES(kProcessThread);
  bool is_stopped() const LOCKSLEY_REQUIRES(kProcessThread);

 private:
  // [any thread] Posts a call of `what`, unless one is posted already.
  void wake(std::atomic<bool>& is_posted, void (ProcessLane::*what)());
  void post_pump() { wake(pump_is_posted_, &ProcessLane::pump); }

  // Calls `what` on the process thread, in the order of the calls of change().
  void change(std::function<void()> what) LOCKSLEY_REQUIRES(kIoThread) LOCKSLEY_EXCLUDES(changes_mutex_);
  // Makes the changes that are in changes_.
  void make_changes() LOCKSLEY_REQUIRES(kProcessThread) LOCKSLEY_EXCLUDES(changes_mutex_);
  // Whether the configuration does not have the handler, and no batch belongs to its gate.
  bool is_unused(const LaneHandler& handler) const LOCKSLEY_REQUIRES(kIoThread);
  // Takes an unused handler from handlers_: its gate can serve another handler. Null: there is
  // none.
  std::unique_ptr<LaneHandler> take_unused() LOCKSLEY_REQUIRES(kIoThread);

  void take_slots(const config::Lane& settings) LOCKSLEY_REQUIRES(kProcessThread);
  void take_program(LaneHandler& handler, std::shared_ptr<const Program> program)
      LOCKSLEY_REQUIRES(kProcessThread);
  // Begins turns while there are jobs and free slots.
  void pump() LOCKSLEY_REQUIRES(kProcessThread);
  void begin_turns() LOCKSLEY_REQUIRES(kProcessThread);
  // Claims a turn. Where only a process that stays could make room for a new one
  // (LaneSlots::staying()), handlers of such processes come first; else any handler.
  bool claim(ExternalExecutor& turn) LOCKSLEY_REQUIRES(kProcessThread);
  // Gives a slot to the turn that was just claimed.
  void place(std::unique_ptr<ExternalExecutor> turn) LOCKSLEY_REQUIRES(kProcessThread);
  void begin(LaneSlot& slot, ProcessRunner* idle, std::unique_ptr<ExternalExecutor> turn)
      LOCKSLEY_REQUIRES(kProcessThread);
  void give_up(std::unique_ptr<ExternalExecutor> turn) LOCKSLEY_REQUIRES(kProcessThread);
  // Begins the slot's waiting turn, if the slot now has room for a process.
  void begin_waiting(LaneSlot& slot) LOCKSLEY_REQUIRES(kProcessThread);
  ProcessRunner& empty_runner(LaneSlot& slot, const LaneHandler& handler) LOCKSLEY_REQUIRES(kProcessThread);
  // Ends the next process that is to be replaced, unless one is still ending.
  void go_on_replacing(LaneHandler& handler) LOCKSLEY_REQUIRES(kProcessThread);
  // Calls end_idle_processes() at `at`, unless the timer is already armed.
  void arm_idle_timer(Nanoseconds at) LOCKSLEY_REQUIRES(kProcessThread);
  void end_idle_processes() LOCKSLEY_REQUIRES(kProcessThread);
  void check_cancelled() LOCKSLEY_REQUIRES(kProcessThread);
  // Batches whose back-off has ended, or whose user and customer may start jobs again, are served
  // again; the timer pumps when the next such wait ends.
  void end_waits() LOCKSLEY_REQUIRES(kProcessThread);
  // While the store has no room: pumps again soon.
  void arm_room_timer() LOCKSLEY_REQUIRES(kProcessThread);

  ProcessLoop& loop_;
  const MakeRunner make_runner_;
  Lane lane_;

  std::map<std::string, std::unique_ptr<LaneHandler>, std::less<>> handlers_ LOCKSLEY_GUARDED_BY(kIoThread);
  std::uint32_t slot_count_ LOCKSLEY_GUARDED_BY(kIoThread) = 0;

  std::vector<LaneHandler*> by_gate_ LOCKSLEY_GUARDED_BY(kProcessThread);  // null: no handler yet
  LaneSlots slots_ LOCKSLEY_GUARDED_BY(kProcessThread);
  std::vector<std::unique_ptr<ExternalExecutor>> executors_
      LOCKSLEY_GUARDED_BY(kProcessThread);                          // without a turn
  Nanoseconds idle_timeout_ LOCKSLEY_GUARDED_BY(kProcessThread){};  // 0: none
  ProcessTimer idle_timer_ LOCKSLEY_GUARDED_BY(kProcessThread);
  bool idle_timer_is_armed_ LOCKSLEY_GUARDED_BY(kProcessThread) = false;
  ProcessTimer wait_timer_ LOCKSLEY_GUARDED_BY(kProcessThread);
  std::optional<Nanoseconds> wait_timer_at_ LOCKSLEY_GUARDED_BY(kProcessThread);  // none: not armed
  ProcessTimer room_timer_ LOCKSLEY_GUARDED_BY(kProcessThread);
  bool room_timer_is_armed_ LOCKSLEY_GUARDED_BY(kProcessThread) = false;
  bool is_pumping_ LOCKSLEY_GUARDED_BY(kProcessThread) = false;
  bool is_stopping_ LOCKSLEY_GUARDED_BY(kProcessThread) = false;
  // The bound is a guess: as many lines as an operator reads.
  RateGate end_lines_ LOCKSLEY_GUARDED_BY(kProcessThread){std::chrono::seconds(1), 5};

  Mutex changes_mutex_;
  std::vector<std::function<void()>> changes_ LOCKSLEY_GUARDED_BY(changes_mutex_);
  // Whether changes_ may have elements. Set by the I/O thread; cleared by the process thread before
  // it takes them.
  std::atomic<bool> has_changes_{false};

  // Set by any thread that posts, cleared by the process thread before it acts.
  std::atomic<bool> pump_is_posted_{false};
  std::atomic<bool> check_is_posted_{false};
};

}  // namespace locksley::daemon

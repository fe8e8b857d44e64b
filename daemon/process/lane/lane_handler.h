// A handler in its lane: its gate, its program, and what closes the gate.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/start_rate.h"
#include "core/lane/lane.h"
#include "daemon/base/loop/io_thread.h"
#include "daemon/process/io/process_io.h"
#include "daemon/process/lane/process_runner.h"
#include "daemon/process/lane/program.h"

namespace locksley::daemon {

// A handler in a lane that it shares with others. It owns a gate of the lane's ring, to which the
// handler's batches belong: the gate admits as many turns as `concurrency` says, less one for each
// runner that pauses, and none while there is no program, or while `rate` lets nothing start.
//
// Owned by a ProcessLane, for the lane's whole life: a handler that was removed may come back, or
// leave its gate to another handler. gate(), is_at_rate(), is_backing_off(), processes(): any
// thread; is_wanted(), set_wanted(): the I/O thread; the rest: the process thread. The compiler
// checks both thread roles. Nothing blocks or fails.
class LaneHandler {
 public:
  LaneHandler(Lane& lane, ProcessExecutor executor, GateId gate)
      : lane_(lane), gate_(gate), rate_timer_(executor) {}
  LaneHandler(const LaneHandler&) = delete;
  LaneHandler& operator=(const LaneHandler&) = delete;

  GateId gate() const { return gate_; }
  // Whether jobs wait because of the configuration's `rate`.
  bool is_at_rate() const {
    // [lane-at-rate] relaxed: for display only; nothing follows from a stale value.
    return at_rate_.load(std::memory_order_relaxed);
  }
  // Whether no job starts because all runners of the handler pause: their processes ended before
  // they read a job.
  bool is_backing_off() const {
    // [handler-backoff] relaxed: for display only; nothing follows from a stale value.
    return backs_off_.load(std::memory_order_relaxed);
  }
  // The number of the handler's processes at this moment.
  std::uint32_t processes() const {
    // [handler-processes] relaxed: for display only; nothing follows from a stale value.
    return processes_.load(std::memory_order_relaxed);
  }

  // Whether the configuration has the handler.
  bool is_wanted() const LOCKSLEY_REQUIRES(kIoThread) { return is_wanted_; }
  void set_wanted(bool is_wanted) LOCKSLEY_REQUIRES(kIoThread) { is_wanted_ = is_wanted; }

  const std::string& name() const LOCKSLEY_REQUIRES(kProcessThread) { return name_; }
  // From now on this object is another handler. Needs: the old handler has no program, and no batch
  // belongs to the gate.
  void rename(std::string name) LOCKSLEY_REQUIRES(kProcessThread) {
    name_ = std::move(name);
    has_worked_ = false;
    cannot_work_since_.reset();
  }
  // Not null while a runner begins.
  const std::shared_ptr<const Program>& program() const LOCKSLEY_REQUIRES(kProcessThread) { return program_; }
  void set_program(std::shared_ptr<const Program> program) LOCKSLEY_REQUIRES(kProcessThread);
  // The lane has so many slots.
  void set_slots(std::uint32_t slots) LOCKSLEY_REQUIRES(kProcessThread);
  // How many jobs `rate` lets start now.
  std::uint64_t may_start(Nanoseconds now) const LOCKSLEY_REQUIRES(kProcessThread) {
    return rate_.available(now);
  }
  void note_started(std::uint64_t jobs, Nanoseconds now) LOCKSLEY_REQUIRES(kProcessThread);
  // Its runners report their processes and pauses.
  void process_began() LOCKSLEY_REQUIRES(kProcessThread) { count_processes(1); }
  void process_ended() LOCKSLEY_REQUIRES(kProcessThread) { count_processes(~std::uint32_t{0}); }
  void pause_began() LOCKSLEY_REQUIRES(kProcessThread);
  void pause_ended() LOCKSLEY_REQUIRES(kProcessThread);
  // A worker of the handler has answered its first job: the program works.
  void worker_works() LOCKSLEY_REQUIRES(kProcessThread) {
    has_worked_ = true;
    cannot_work_since_.reset();
  }
  // A worker of the handler could not be started, or ended before it read a byte of its first job.
  // Returns whether the job goes back to its batch, as if it had not begun. It goes back if a
  // worker of the handler has worked before, until kSpareTime after the first of these failures:
  // then new code, or a service that the program needs at its start, is broken, and an operator has
  // time to repair it. A failure more than kSpareTime after the last one counts as a first one. The
  // jobs of a program that has never worked fail, so that its author learns why.
  bool spares_job(Nanoseconds now) LOCKSLEY_REQUIRES(kProcessThread);
  static constexpr std::chrono::minutes kSpareTime{5};  // guess: time to notice the failure and to roll back

  // Its idle runners; the one used last is the last.
  std::vector<ProcessRunner*>& idle() LOCKSLEY_REQUIRES(kProcessThread) { return idle_; }
  const std::vector<ProcessRunner*>& idle() const LOCKSLEY_REQUIRES(kProcessThread) { return idle_; }
  // The runners whose processes have to be replaced, and the runner whose process is being replaced
  // now (null: none).
  std::vector<ProcessRunner*>& to_replace() LOCKSLEY_REQUIRES(kProcessThread) { return to_replace_; }
  ProcessRunner*& in_replacement() LOCKSLEY_REQUIRES(kProcessThread) { return in_replacement_; }

 private:
  void count_processes(std::uint32_t by) {
    // [handler-processes] relaxed: as in processes().
    processes_.fetch_add(by, std::memory_order_relaxed);
  }
  void update_rate(Nanoseconds now) LOCKSLEY_REQUIRES(kProcessThread);
  // Reports the gate's limit, start cost and switch to the ring.
  void update_gate() LOCKSLEY_REQUIRES(kProcessThread);

  Lane& lane_;
  const GateId gate_;

  bool is_wanted_ LOCKSLEY_GUARDED_BY(kIoThread) = true;

  std::string name_ LOCKSLEY_GUARDED_BY(kProcessThread);
  std::shared_ptr<const Program> program_ LOCKSLEY_GUARDED_BY(kProcessThread);
  std::uint32_t slots_ LOCKSLEY_GUARDED_BY(kProcessThread) = 0;
  std::uint32_t pausing_ LOCKSLEY_GUARDED_BY(kProcessThread) = 0;
  bool has_worked_ LOCKSLEY_GUARDED_BY(kProcessThread) = false;  // since the daemon's start
  // The first and the last call of spares_job() for the present failures; none: there are none.
  std::optional<Nanoseconds> cannot_work_since_ LOCKSLEY_GUARDED_BY(kProcessThread);
  Nanoseconds last_failure_ LOCKSLEY_GUARDED_BY(kProcessThread){0};
  StartRate rate_ LOCKSLEY_GUARDED_BY(kProcessThread);
  ProcessTimer rate_timer_ LOCKSLEY_GUARDED_BY(kProcessThread);
  bool is_rate_open_ LOCKSLEY_GUARDED_BY(kProcessThread) = true;
  std::vector<ProcessRunner*> idle_ LOCKSLEY_GUARDED_BY(kProcessThread);
  std::vector<ProcessRunner*> to_replace_ LOCKSLEY_GUARDED_BY(kProcessThread);
  ProcessRunner* in_replacement_ LOCKSLEY_GUARDED_BY(kProcessThread) = nullptr;
  // The last state that was reported to the ring.
  bool is_on_ LOCKSLEY_GUARDED_BY(kProcessThread) = false;
  std::uint32_t limit_ LOCKSLEY_GUARDED_BY(kProcessThread) = 0;

  // Written by the process thread, read by any for display.
  std::atomic<bool> at_rate_{false};
  std::atomic<bool> backs_off_{false};
  std::atomic<std::uint32_t> processes_{0};
};

}  // namespace locksley::daemon

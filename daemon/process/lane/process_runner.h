// The interface of runners. A runner runs the jobs of one slot, in one process at a time.
#pragma once

#include <cstdint>
#include <memory>

#include "core/lane/external_executor.h"
#include "daemon/process/io/process_io.h"
#include "daemon/process/lane/program.h"

namespace locksley::daemon {

class LaneHandler;
struct LaneSlot;

// Runs jobs of one handler at a time in one process at a time, in one slot of a lane. A slot has
// several: one that has a turn, and others whose processes wait for their handler's next turn.
//
// Owned by its slot, for the lane's whole life, because Asio may hold callbacks for it. The process
// thread only, which the compiler checks; nothing blocks. A process that cannot be started, or that
// fails, ends its job with that error.
class ProcessRunner {
 public:
  enum class State : std::uint8_t {
    kEmpty,    // no process; may serve another handler, if may_serve() says so
    kRunning,  // has a turn
    kIdle,     // its process waits for the next turn
    kEnding,   // its process has no jobs, and ends: it was told to, or has closed a pipe
    kPausing,  // no process: the last ones could not work, and the next one is started later
  };

  virtual ~ProcessRunner() = default;
  virtual Program::Kind kind() const = 0;
  virtual State state() const LOCKSLEY_REQUIRES(kProcessThread) = 0;
  virtual LaneSlot& slot() const = 0;
  // The handler that it serves, or served last; null: none yet.
  virtual LaneHandler* handler() const LOCKSLEY_REQUIRES(kProcessThread) = 0;
  // With State::kIdle: since when.
  virtual Nanoseconds idle_since() const LOCKSLEY_REQUIRES(kProcessThread) = 0;
  // With State::kIdle: before this time, its process is not ended for a job of another handler
  // while its own handler has jobs. 0: it may be ended at any time.
  virtual Nanoseconds stays_until() const LOCKSLEY_REQUIRES(kProcessThread) = 0;
  // Needs: State::kEmpty. Whether it may serve this handler: not while it counts failures of
  // another one, which would be forgotten.
  virtual bool may_serve(const LaneHandler& handler) const LOCKSLEY_REQUIRES(kProcessThread) = 0;

  // Needs: State::kEmpty, or State::kIdle with this handler, which has a program. `turn` has a turn
  // of the handler's gate. Starts at most `most` of the turn's jobs; the others go back at the end
  // of the turn. Returns how many jobs it has started. If the runner has no turn afterwards, it has
  // settled the turn; else it will call ProcessLane::runner_changed().
  virtual std::uint64_t begin(LaneHandler& handler, std::unique_ptr<ExternalExecutor> turn,
                              std::uint64_t most) LOCKSLEY_REQUIRES(kProcessThread) = 0;
  // Ends the process if the batch whose jobs it runs has been cancelled. Does nothing if the runner
  // has no turn.
  virtual void check_cancelled() LOCKSLEY_REQUIRES(kProcessThread) = 0;
  // Ends the process if the runner is idle; then it is ending.
  virtual void release_process() LOCKSLEY_REQUIRES(kProcessThread) = 0;
  // The handler has another program: forgets the failures of the old one, and ends the pause that
  // they have caused.
  virtual void reset_failures() LOCKSLEY_REQUIRES(kProcessThread) = 0;
  // The daemon shuts down: asks the process to end. The jobs return to the ring when the process
  // has ended.
  virtual void stop() LOCKSLEY_REQUIRES(kProcessThread) = 0;
  // The process has not ended in time: the runner forgets it, and its jobs return to the ring at
  // once.
  virtual void abandon() LOCKSLEY_REQUIRES(kProcessThread) = 0;

  bool has_process() const LOCKSLEY_REQUIRES(kProcessThread) {
    return state() != State::kEmpty && state() != State::kPausing;
  }
};

}  // namespace locksley::daemon

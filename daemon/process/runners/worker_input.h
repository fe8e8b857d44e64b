// Standard input of a worker's process.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "daemon/process/io/process_io.h"
#include "proto/output_buffer.h"

namespace locksley::daemon {

// The standard input of a worker's process: writes jobs as fast as the pipe takes them, and notices
// when the process closes its end.
//
// A member of a WorkerRunner; the process thread only. Nothing blocks: the pipe is non-blocking.
class WorkerInput {
 public:
  enum class Rest { kNone, kLost };
  // `on_closed` is called when the process has closed its input; its argument says whether that
  // loses jobs.
  WorkerInput(ProcessExecutor executor, std::function<void(Rest)> on_closed)
      : pipe_(executor), on_closed_(std::move(on_closed)) {}
  WorkerInput(const WorkerInput&) = delete;
  WorkerInput& operator=(const WorkerInput&) = delete;

  // Takes the pipe of a new process. Jobs that are in the buffer stay there.
  void open(int descriptor) LOCKSLEY_REQUIRES(kProcessThread);
  // The runner puts jobs here; write() sends them.
  proto::OutputBuffer& buffer() LOCKSLEY_REQUIRES(kProcessThread) { return buffer_; }
  void write() LOCKSLEY_REQUIRES(kProcessThread);
  // Before the first write() of a turn.
  void begin_turn() LOCKSLEY_REQUIRES(kProcessThread) { written_ = 0; }
  // How many bytes of this turn the process has read. Needs: not closed.
  std::uint64_t bytes_read() LOCKSLEY_REQUIRES(kProcessThread);
  // Whether the process has closed its end, so that it can get no more jobs.
  bool is_closed_by_process() const LOCKSLEY_REQUIRES(kProcessThread) { return is_closed_by_process_; }
  // Closes the pipe, which tells the process that no more jobs come. Drops the contents of the
  // buffer.
  void close() LOCKSLEY_REQUIRES(kProcessThread);
  // The same, and removes from the pipe the bytes that the process has not read.
  void close_and_take_back() LOCKSLEY_REQUIRES(kProcessThread);

 private:
  void watch() LOCKSLEY_REQUIRES(kProcessThread);
  void peer_closed() LOCKSLEY_REQUIRES(kProcessThread);

  ProcessDescriptor pipe_ LOCKSLEY_GUARDED_BY(kProcessThread);
  std::uint64_t opened_ LOCKSLEY_GUARDED_BY(kProcessThread) = 0;   // number of pipes so far
  bool is_writing_ LOCKSLEY_GUARDED_BY(kProcessThread) = false;    // waits until the pipe has room
  std::uint64_t written_ LOCKSLEY_GUARDED_BY(kProcessThread) = 0;  // bytes, in this turn
  proto::OutputBuffer buffer_ LOCKSLEY_GUARDED_BY(kProcessThread);
  bool is_closed_by_process_ LOCKSLEY_GUARDED_BY(kProcessThread) = false;
  const std::function<void(Rest)> on_closed_;
};

}  // namespace locksley::daemon

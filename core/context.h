// What a handler can do while it runs a job: write its output, fail, see that it should stop, and use the
// pool for sub-jobs and parallel loops.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/index_range.h"
#include "core/job.h"
#include "core/task.h"

namespace locksley {

class Batch;
class Worker;
class ResultWriter;

// Why a job should stop.
enum class StopReason : std::uint8_t { none, cancelled, timeout };

// The job on whose behalf code runs: shared by the job and all its sub-jobs, on whatever worker. Constant
// while they run.
struct JobFrame {
  Batch* batch;              // of posted work: the default queue's
  std::uint64_t index;       // of the job in its batch
  Nanoseconds time_limit{};  // steady instant at which it should stop; 0: none
};

// The place of some code on a worker: for which job it runs, and where. Handed to jobs and to sub-jobs; valid
// until they return, and only on their thread.
class Context {
 public:
  Context(Worker& worker, const JobFrame& frame) : worker_(worker), frame_(frame) {}
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  // The job's place in its batch, the batch's id, its tenant, and the trace context its submitter gave (empty
  // if none).
  std::uint64_t index() const { return frame_.index; }
  std::string_view batch_id() const;
  // 1, and one more for each try of this job that failed, and for each process before this one that may have
  // run it, in whole or in part: if it is not 1, a handler whose work has
  // effects outside should look whether it is done.
  std::uint32_t attempt() const;
  std::string_view tenant() const;
  std::string_view trace() const;

  // Whether the job's batch was cancelled or the job's time is up. About 1 ns without a time limit, 40 ns
  // with one. Long jobs look at it now and then, and call give_up() or simply return.
  StopReason stop_reason() const;
  bool should_stop() const { return stop_reason() != StopReason::none; }

  // Holds the worker for `duration`, or until the job should stop, whichever is first (looked at every 5 ms).
  void sleep_for(Nanoseconds duration) const;

  // Calls body(i) for every i in [low, high), on this worker and on every other that has nothing better to
  // do; or body(IndexRange) for ranges that together are [low, high), if it takes one: for bodies that add
  // up, or that the compiler turns into vector instructions; or body(Context&, IndexRange), with the place
  // that the piece is run at. Pieces of up to `grain` indexes are run without
  // looking at the rest of the pool; 0 lets the pool choose. Returns when all are done. The first exception
  // that a body throws is thrown again here, after the rest of the range was dropped. If the job should stop,
  // the rest is dropped and it returns.
  template <class Body>
  void parallel_for(std::uint64_t low, std::uint64_t high, Body&& body, std::uint64_t grain = 0);

  Worker& worker() const { return worker_; }
  const JobFrame& frame() const { return frame_; }

 private:
  Worker& worker_;
  const JobFrame& frame_;
};

// What a job has beside: an output, and a way to fail.
class JobContext : public Context {
 public:
  JobContext(Worker& worker, const JobFrame& frame, ResultWriter& output)
      : Context(worker, frame), output_(output) {}

  // Appends to the job's output. At most 4 GiB, beyond which the job ends as an error; lower limits are the
  // caller's.
  void write(std::string_view bytes);
  // Reserves `size` bytes at the end of the output and returns where to write them; valid until the next
  // write.
  char* write_space(std::size_t size);
  // The job ends `error` with this text in place of its output. The last call counts.
  void fail(std::string_view message);
  // The job ends because it was asked to stop: `cancelled`, or `timeout`. Does nothing if it was not asked.
  void give_up();

  JobStatus status() const { return status_; }

 private:
  ResultWriter& output_;
  JobStatus status_ = JobStatus::ok;
};

// Sub-jobs of one job that are waited for together. Lives on the stack of the code that spawns and waits;
// only that thread calls it. The destructor waits, so no sub-job outlives what it refers to.
class TaskGroup {
 public:
  explicit TaskGroup(Context& context) : context_(context), count_(context.worker()) {}
  ~TaskGroup();
  TaskGroup(const TaskGroup&) = delete;
  TaskGroup& operator=(const TaskGroup&) = delete;

  // Queues `function(Context&)` on this worker's own deque: run by wait(), last in first out, unless a thief
  // takes it before, oldest first. It runs for the same job: same batch, tenant, trace, cancellation and time
  // limit. No allocation for closures of up to Task::kInlineBytes.
  template <class F>
  void spawn(F&& function);

  // Runs the group's sub-jobs, or other sub-jobs of the same batch, until all of the group have ended; holds
  // the worker without running anything only when there is nothing of the kind. The first exception of a
  // sub-job is thrown again here.
  void wait();

 private:
  friend class Worker;

  Context& context_;
  TaskCount count_;
};

}  // namespace locksley

#include "core/context_inl.h"

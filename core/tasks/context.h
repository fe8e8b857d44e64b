// The interface of a running job to its handler: output, failure, and the question whether it
// should stop. A handler that splits its job among the workers of the pool also includes
// core/tasks/task_group.h or core/tasks/parallel_for.h.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/base/index_range.h"
#include "core/base/job.h"

namespace locksley {

class Batch;
class ResultWriter;
class Spawner;

// Why a job should stop.
enum class StopReason : std::uint8_t { kNone, kCancelled, kTimeout };

// The job on whose behalf code runs. The job and all its sub-jobs share one, on whichever workers
// they run. Constant while they run.
struct JobFrame {
  Batch* batch;                 // the default queue's, for a posted function
  std::uint64_t index;          // the job's, in its batch
  Instant time_limit = kNever;  // when the job should stop; kNever: no limit
};

// The job for which some code runs, and the worker on which it runs. The pool passes one to each
// job, sub-job and burst of a parallel loop.
//
// On the stack of a worker; valid until the code that got it returns. Only that code's thread may
// call it. sleep_for() and parallel_for() block. attempt() takes the batch's mutex if a job of the
// batch has been retried. The other calls do not block. Only parallel_for() throws.
class Context {
 public:
  Context(Spawner& spawner, const JobFrame& frame) : spawner_(spawner), frame_(frame) {}
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  // The job's index in its batch; the batch's id and tenant; the trace context from its submitter,
  // empty if there was none.
  std::uint64_t index() const { return frame_.index; }
  std::string_view batch_id() const;
  std::string_view tenant() const;
  std::string_view trace() const;
  // The number of this attempt at the job, from 1. Failed attempts count, and so does each earlier
  // process that may have begun the job. If it is not 1, a handler whose work has effects outside
  // should check whether they have happened already.
  std::uint32_t attempt() const;

  // Whether the job's batch was cancelled, or its time limit has passed. About 1 ns without a time
  // limit, 40 ns with one. A long job calls it from time to time, and then calls give_up() or
  // returns.
  StopReason stop_reason() const;
  bool should_stop() const { return stop_reason() != StopReason::kNone; }

  // Holds the worker for `duration`, or until the job should stop, whichever comes first (checked
  // every 5 ms).
  void sleep_for(Nanoseconds duration) const;

  // Calls `body` for all indexes in [low, high), on this worker and on others that have no other
  // work, and returns when all have been run. `body` takes
  //   - an index; or
  //   - an IndexRange, for bodies that add up, or that the compiler vectorizes: together the
  //     ranges are [low, high); or
  //   - a Context& and an IndexRange: the context of the worker that runs the range.
  // A worker runs up to `grain` indexes in one burst, between which it lets others steal from it; 0
  // lets the pool choose. The first exception that a body throws is thrown again here, after the
  // rest of the range was dropped. If the job should stop, the rest is dropped, and this returns.
  // While it waits for other workers it runs sub-jobs as TaskGroup::wait() does: hold no lock that
  // these may take. Defined in core/tasks/parallel_for.h.
  template <class Body>
  void parallel_for(std::uint64_t low, std::uint64_t high, Body&& body, std::uint64_t grain = 0);

  // The spawner of the worker that runs the code; for core/tasks/task_group.h.
  Spawner& spawner() const { return spawner_; }
  const JobFrame& frame() const { return frame_; }

 private:
  Spawner& spawner_;
  const JobFrame& frame_;
};

// The context of a job itself, as opposed to its sub-jobs: it also has the job's output and its
// status. The same rules of use. write() and write_space() may throw std::length_error for an
// output that is longer than the batch allows (BatchOptions::max_output_bytes; 4 GiB without it).
class JobContext : public Context {
 public:
  JobContext(Spawner& spawner, const JobFrame& frame, ResultWriter& output)
      : Context(spawner, frame), output_(output) {}

  // Appends to the job's output. A job whose output is longer than its batch allows ends as an
  // error, also if the handler catches the exception; only fail() and give_up() then say otherwise.
  void write(std::string_view bytes);
  // Reserves `size` bytes at the end of the output, and returns where to write them. Valid until
  // the next write.
  char* write_space(std::size_t size);
  // The job ends with the status `error`, and with this text in place of its output. The last call
  // counts.
  void fail(std::string_view message);
  // The job ends with the status `cancelled` or `timeout`, after stop_reason(). No effect if that
  // is kNone.
  void give_up();

  JobStatus status() const { return status_; }

 private:
  ResultWriter& output_;
  JobStatus status_ = JobStatus::kOk;
};

}  // namespace locksley

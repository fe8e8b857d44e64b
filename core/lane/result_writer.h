// The buffer in which an executor collects the results of its jobs until they are published.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/job.h"
#include "core/batch/batch.h"
#include "core/batch/result_log.h"
#include "core/sync/mutex.h"

namespace locksley {

// The results of one executor, a pool's worker or an ExternalExecutor: for one batch at a time,
// batch after batch. Per job, the executor's thread takes no lock and performs no locked operation.
//
// A member of its executor; outlives the monitor's thread.
// Three kinds of callers. The executor's thread calls all functions but two. The monitor calls
// publish_for_worker(), while that thread is busy with a long job. Any thread calls running(). All
// calls except running() block while the other thread publishes. The batch's observer and journal
// are called under the writer's mutex, so they must not wait for the executor. An output of a good
// job above BatchOptions::max_output_bytes, or above 4 GiB, ends its job as an error. The text of a
// job that ended otherwise is cut to this limit, or to kErrorBytes if that is more: its beginning
// says why the job failed. If the buffer would have to grow for an output beyond the limit, write()
// and write_space() throw std::length_error instead of growing it. A failed allocation makes them
// throw std::bad_alloc. After an output is written, the buffer may have to grow for the next job,
// and a publication may copy the rows. If there is no memory for that, the jobs with the longest
// outputs end as errors that say so; only if that does not help, end_job() and publish() throw.
//
// How the two threads share the buffer: rows lie in it in the order of completion. After each job
// the executor's thread stores, with release, how many jobs have ended since begin_batch(), and how
// many of them failed. A publisher takes mutex_, loads that word, walks over as many rows as it
// stands for, and hands them to the batch. Bytes after those rows belong to the executor's thread
// alone. Steps that move or re-use the buffer, or change the batch, hold mutex_.
// Keep::kFailures: only jobs that were not ok have rows. Keep::kNone: the same rows tell the batch
// which jobs these are and how they ended, and the batch discards them. So the published counts are
// always those of the rows.
class ResultWriter {
 public:
  // kTooManyFailures: the batch has reached its max_fails, and the caller is to cancel its rest.
  enum class Outcome { kPublished, kNothing, kTooManyFailures };

  // For whom it writes. kWorker: a worker of the pool, which has a thread of its own. kExternal: an
  // executor whose jobs run elsewhere. Its thread serves others, too, so nothing here pauses it.
  // Its jobs may leave notes while they run, so publications always name the jobs that have ended;
  // those of a worker do where Batch::needs_indexes() is true when the turn begins.
  enum class For : std::uint8_t { kWorker, kExternal };

  explicit ResultWriter(For executor = For::kWorker);
  ~ResultWriter();
  ResultWriter(const ResultWriter&) = delete;
  ResultWriter& operator=(const ResultWriter&) = delete;

  // ---- The executor's thread: batches ----

  // `began`: when the turn did.
  void begin_batch(Batch& batch, Nanoseconds began = {}) LOCKSLEY_EXCLUDES(mutex_);
  // Jobs low, low + 1, … are run from here on, until the next burst begins. Needed for a batch that
  // must know which jobs have ended (Batch::needs_indexes()).
  void begin_burst(std::uint64_t low) LOCKSLEY_EXCLUDES(mutex_) {
    if (own().names_jobs) note_burst(low);
  }
  // Publishes, and starts the buffer anew.
  Outcome publish() LOCKSLEY_EXCLUDES(mutex_);
  // Publishes the rest, and lets go of the batch.
  Outcome end_batch() LOCKSLEY_EXCLUDES(mutex_);

  // ---- The executor's thread: jobs ----

  void begin_job(std::uint64_t index) {
    // [running-index] relaxed: for display; the mutex orders it with the batch.
    index_.store(index, std::memory_order_relaxed);
    cursor_ = row_ + sizeof(ResultHead);
  }
  void write(std::string_view bytes) {
    char* to = write_space(bytes.size());
    if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
  }
  // The next `size` bytes of the output. Valid until the next call.
  char* write_space(std::size_t size) {
    if (size > own().capacity - cursor_) [[unlikely]]
      grow_output(size);
    return next(size);
  }
  // Drops the job's output so far.
  void clear_output() {
    cursor_ = row_ + sizeof(ResultHead);
    most_output_ = own().allowed_output;
  }
  // `text` in place of the job's output so far. Does not throw for a text that is longer than the
  // batch allows, or than memory allows: end_job() replaces it, or cuts it.
  void replace_output(std::string_view text) {
    clear_output();
    if (text.size() > own().capacity - cursor_) [[unlikely]]
      return replace_by_long(text);
    append(text);
  }
  // The job has ended; its output is the text written so far. For kOk, an output that is longer
  // than the batch allows, or of which a part was refused, makes it an error. For other statuses
  // the output is cut.
  void end_job(JobStatus status) LOCKSLEY_EXCLUDES(mutex_);
  // The same with facts of the job's run (core/batch/job_facts.h, encoded), which are kept with its
  // row. Changes `facts`.
  void end_job(JobStatus status, std::string& facts) LOCKSLEY_EXCLUDES(mutex_);
  // Jobs first, first + 1, … have ended, each with its output: as begin_job(), replace_output() and
  // end_job() of each.
  void end_jobs(JobStatus status, std::uint64_t first, std::span<const std::string_view> outputs)
      LOCKSLEY_EXCLUDES(mutex_);

  // Failed jobs without facts get this as the place where they ran. Between batches.
  void set_worker(std::string name) { worker_ = std::move(name); }

  // Jobs that have ended, but that this thread has not published; the monitor may have.
  std::uint64_t unpublished_jobs() const { return ended_ - published_hint_; }
  std::size_t unpublished_bytes() const { return row_; }

  // ---- The monitor ----

  // Publishes in the place of an executor that is busy. If the batch has too many failures now,
  // calls `cancel`, under the writer's mutex: so the executor does not leave the batch meanwhile,
  // and the batch stays in its lane.
  Outcome publish_for_worker(const std::function<void(Batch&)>& cancel) LOCKSLEY_EXCLUDES(mutex_);

  // ---- Any thread ----

  // The job that runs, or ran last in this turn; none between turns.
  struct Running {
    std::shared_ptr<Batch> batch;
    std::uint64_t index = 0;
    Nanoseconds since{};  // the turn's begin
  };
  // Never waits for a publication.
  std::optional<Running> running() LOCKSLEY_EXCLUDES(shown_mutex_);

 private:
  static constexpr std::size_t kInitialBytes = 128 * 1024;  // a guess: twice a worker's kPublishBytes
  // The length that the text of a failed job may always have. A guess: some lines.
  static constexpr std::size_t kErrorBytes = 1024;
  static constexpr std::size_t kLargestOutput = ~std::uint32_t{0};  // ResultHead::length

  // A burst of which some jobs have not been published: its first index, and how many jobs had
  // ended before.
  struct Burst {
    std::uint64_t low;
    std::uint32_t ended_before;
  };

  // The executor's state that publishers read. Only the executor's thread changes it, under mutex_;
  // that thread reads it by own().
  struct Shared {
    std::unique_ptr<std::byte[]> buffer;
    std::size_t capacity;
    Keep keep = Keep::kAll;
    std::size_t allowed_output = kLargestOutput;  // BatchOptions::max_output_bytes, if it is less
    bool names_jobs = false;                      // bursts_ says which jobs have ended
  };
  // For the executor's thread. Not checked by the compiler: this thread may read without the mutex
  // the data that only it changes.
  const Shared& own() const LOCKSLEY_NO_THREAD_SAFETY_ANALYSIS { return shared_; }
  std::size_t output_bytes() const { return cursor_ - row_ - sizeof(ResultHead); }  // of the running job
  // Needs: room for `size` bytes.
  char* next(std::size_t size) {
    char* to = reinterpret_cast<char*>(own().buffer.get()) + cursor_;
    cursor_ += size;
    return to;
  }
  // As write(), without the check of the length: for facts, and for texts in place of an output.
  void append(std::string_view bytes) LOCKSLEY_EXCLUDES(mutex_) {
    if (bytes.size() > own().capacity - cursor_) [[unlikely]]
      grow(bytes.size());
    if (!bytes.empty()) std::memcpy(next(bytes.size()), bytes.data(), bytes.size());
  }
  void replace_by_long(std::string_view text) LOCKSLEY_EXCLUDES(mutex_);
  // Why an output of `size` bytes is refused.
  std::string refusal(std::size_t size) const;
  // The output is too long for a job that ended with `status`: replaces it by an error that says
  // so, or cuts the text of a job that failed. Returns the status that the job gets.
  JobStatus shorten_output(JobStatus status) LOCKSLEY_EXCLUDES(mutex_);
  // As grow(); throws if the output would be longer than allowed, and the job then ends as an
  // error.
  void grow_output(std::size_t size) LOCKSLEY_EXCLUDES(mutex_);
  void grow(std::size_t size) LOCKSLEY_EXCLUDES(mutex_);
  bool try_grow(std::size_t size) LOCKSLEY_EXCLUDES(mutex_);
  // There is no memory for the bytes that follow the job's output. As shorten_output(), but throws
  // std::bad_alloc if the buffer is full without the output.
  JobStatus drop_output(JobStatus status) LOCKSLEY_EXCLUDES(mutex_);
  void note_burst(std::uint64_t low) LOCKSLEY_EXCLUDES(mutex_);
  // The jobs that have ended since the last publication, if `ended` jobs have ended since
  // begin_batch().
  std::vector<IndexRange> unpublished_indexes(std::uint32_t ended) const LOCKSLEY_REQUIRES(mutex_);
  // Publishes in parts. Throws NoMemoryForRows: the parts before are published, and nothing else
  // has changed.
  Outcome publish_locked() LOCKSLEY_REQUIRES(mutex_);
  // Jobs since begin_batch(), and those of them that were not ok.
  struct Counts {
    std::uint32_t ended;
    std::uint32_t failed;
  };
  // Returns up to which of `all` jobs the next part goes. A part has at most kScatteredAtOnce
  // ranges of jobs that were not ok: the batch's mutex is held for some 100 ns for each, and is
  // free between two parts, so that the I/O thread gets it.
  static constexpr std::uint32_t kScatteredAtOnce = 256;
  Counts next_part(Counts all) const LOCKSLEY_REQUIRES(mutex_);
  // How many jobs had ended with job `index`, which is one of `ended` and has not been published.
  // None: no burst has it.
  std::optional<std::uint32_t> ended_with(std::uint64_t index, std::uint32_t ended) const
      LOCKSLEY_REQUIRES(mutex_);
  // Whether the batch has too many failures now.
  bool publish_part(Counts part) LOCKSLEY_REQUIRES(mutex_);
  // The same by the executor's thread, between jobs: it makes room.
  Outcome publish_own() LOCKSLEY_REQUIRES(mutex_);
  // The longest of the unpublished outputs, and those of at least half its length, become errors
  // that say that there is no memory. False: none is long.
  bool shorten_longest() LOCKSLEY_REQUIRES(mutex_);
  void end_plain_job(JobStatus status) LOCKSLEY_EXCLUDES(mutex_);
  // The same where the output is too long; apart, since the other jobs need no room for it in their
  // code.
  [[gnu::noinline]] void end_long_job(JobStatus status) LOCKSLEY_EXCLUDES(mutex_);
  void commit(JobStatus status, bool has_facts) LOCKSLEY_EXCLUDES(mutex_);

  // Constant.
  const For executor_;

  Shared shared_ LOCKSLEY_GUARDED_BY(mutex_);

  // The executor's thread alone.
  std::size_t row_ = 0;     // where the next row begins
  std::size_t cursor_ = 0;  // where the output of the running job continues
  // Usually allowed_output_. After a refused write of the running job: 0, and the output is one
  // byte, so that end_job()'s ordinary length check catches it.
  std::size_t most_output_ = kLargestOutput;
  // The output's length if that write had not been refused; within the limit if memory was short.
  std::size_t refused_bytes_ = 0;
  std::uint32_t ended_ = 0;           // jobs since begin_batch()
  std::uint32_t failed_ = 0;          // of those
  std::uint32_t published_hint_ = 0;  // of ended_, published by this thread

  std::string worker_;  // constant during a batch; empty: not known

  // The running job's. Written by the executor's thread, read by any for display. kNoJob: none
  // since begin_batch().
  static constexpr std::uint64_t kNoJob = ~std::uint64_t{0};
  std::atomic<std::uint64_t> index_{kNoJob};

  // Written by the executor's thread after each job: ended << 32 | not ok. A publisher, who reads
  // it under mutex_, may then read the rows of those jobs.
  std::atomic<std::uint64_t> committed_{0};

  Mutex mutex_;
  Batch* batch_ LOCKSLEY_GUARDED_BY(mutex_) = nullptr;
  Nanoseconds began_ LOCKSLEY_GUARDED_BY(mutex_){};
  std::uint32_t published_ended_ LOCKSLEY_GUARDED_BY(mutex_) = 0;
  std::uint32_t published_failed_ LOCKSLEY_GUARDED_BY(mutex_) = 0;
  std::size_t published_row_ LOCKSLEY_GUARDED_BY(mutex_) = 0;
  std::vector<Burst> bursts_ LOCKSLEY_GUARDED_BY(mutex_);

  // The values that running() shows, equal to batch_ and began_. Held for a few instructions, also
  // under mutex_, as a publication may take milliseconds.
  struct Shown {
    Batch* batch = nullptr;
    Nanoseconds began{};
  };
  Mutex shown_mutex_;
  Shown shown_ LOCKSLEY_GUARDED_BY(shown_mutex_);
};

}  // namespace locksley

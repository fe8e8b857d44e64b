// Where a worker collects the results of the jobs that it runs, until they are published.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "core/batch.h"
#include "core/job.h"
#include "core/result_log.h"

namespace locksley {

// One a worker, re-used for batch after batch. The worker's thread writes rows without a lock or a locked
// operation a job; publish() may be called by the worker and, while the worker is held up in a long job, by
// the monitor.
//
// How the two get along: rows lie in a private buffer in the order of completion. After each job the worker
// stores, with release, how many jobs have ended since the batch began and how many of them failed. Whoever
// publishes takes mutex_, loads that word, walks over as many rows as it stands for, and hands them to the
// batch. Bytes behind those rows are the worker's alone. Whatever moves or re-uses the buffer, or changes the
// batch, happens under mutex_. Where outputs of good jobs are not kept, only the other jobs have rows; where
// none are kept, those rows serve to tell which they are and how they ended, and go no further. So the counts
// that are published are always those of the rows.
class ResultWriter {
 public:
  // What the caller of publish() has to see to: the batch had more failures than it allows, and its rest is
  // to be cancelled.
  enum class Outcome { published, nothing, too_many_failures };

  ResultWriter();
  ~ResultWriter();
  ResultWriter(const ResultWriter&) = delete;
  ResultWriter& operator=(const ResultWriter&) = delete;

  // ---- The worker's thread ----

  void begin_batch(Batch& batch);
  // Jobs low, low + 1, … are run from here on, until the next piece begins. For a batch with a journal, which
  // is to know which jobs have ended.
  void begin_piece(std::uint64_t low) {
    if (journaled_) note_piece(low);
  }
  // Publishes what is left and lets go of the batch.
  Outcome end_batch();

  void begin_job(std::uint64_t index) {
    index_ = index;
    cursor_ = row_ + sizeof(ResultHead);
  }
  void write(std::string_view bytes) {
    char* to = write_space(bytes.size());
    if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
  }
  // The next `size` bytes of the output. Valid until the next call.
  char* write_space(std::size_t size) {
    if (size > capacity_ - cursor_) [[unlikely]]
      grow(size);
    char* to = reinterpret_cast<char*>(buffer_.get()) + cursor_;
    cursor_ += size;
    return to;
  }
  // Drops the output of the job so far.
  void clear_output() { cursor_ = row_ + sizeof(ResultHead); }
  void end_job(JobStatus status);

  // Ended jobs whose results nobody else can see yet.
  std::uint64_t unpublished_jobs() const { return ended_ - published_hint_; }
  std::size_t unpublished_bytes() const { return row_; }

  // Publishes, and begins the buffer anew.
  Outcome publish();

  // ---- Any thread ----

  // Publishes in the place of a worker that is busy. `batch` keeps the batch that was published alive, for
  // the caller to cancel.
  Outcome publish_for_worker(std::shared_ptr<Batch>& batch);

 private:
  static constexpr std::size_t kInitialBytes = 128 * 1024;
  static constexpr std::size_t kLargestOutput = ~std::uint32_t{0};  // ResultHead::length

  void grow(std::size_t size);
  void note_piece(std::uint64_t low);
  std::vector<IndexRange> take_indexes(std::uint32_t ended);
  Outcome publish_locked();

  // The worker's thread only, but for grow() and begin_batch(), which change them under mutex_ for the
  // publisher's sake.
  std::unique_ptr<std::byte[]> buffer_;
  std::size_t capacity_;
  std::size_t row_ = 0;     // where the next row begins
  std::size_t cursor_ = 0;  // where the output of the running job continues
  std::uint64_t index_ = 0;
  Keep keep_ = Keep::all;
  bool journaled_ = false;
  std::uint32_t ended_ = 0;           // since begin_batch()
  std::uint32_t failed_ = 0;          // of those
  std::uint32_t published_hint_ = 0;  // of ended_, by this thread

  // Written by the worker after each job: ended << 32 | not ok. Whoever reads it, under mutex_, may read the
  // rows of those jobs.
  std::atomic<std::uint64_t> committed_{0};

  std::mutex mutex_;
  // Guarded by mutex_:
  Batch* batch_ = nullptr;
  std::uint32_t published_ended_ = 0;
  std::uint32_t published_failed_ = 0;
  std::size_t published_row_ = 0;
  // The pieces whose jobs have not all been published: their first index, and how many jobs had ended before.
  struct Piece {
    std::uint64_t low;
    std::uint32_t ended_before;
  };
  std::vector<Piece> pieces_;
};

}  // namespace locksley

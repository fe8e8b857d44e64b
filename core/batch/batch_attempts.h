// The attempts of a batch's jobs, and the notes that they leave for the next attempts.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/index_range.h"
#include "core/batch/batch.h"

namespace locksley {

// Which attempt of a job the next one is, or the one that runs; and its last note, a checkpoint of
// a few bytes.
//
// A handle of a batch, which outlives it. Any thread. Each call is one load while no job of the
// batch has been retried or has made a note; after that it takes the batch's mutex for a look-up.
// Nothing blocks or fails, but note() allocates.
class Batch::Attempts {
 public:
  // The attempt number of a job that has not failed: 1 unless the batch was restored after a
  // restart. The earlier process may or may not have begun any of the jobs.
  std::uint32_t first() const { return batch_.attempt_; }
  // The attempt number of one job: first(), plus its failed attempts.
  std::uint32_t of(std::uint64_t index) const;
  // The jobs at the beginning of `jobs`, which is not empty, whose attempt number is that of the
  // first one.
  IndexRange with_equal_attempts(IndexRange jobs) const;
  // The last note of a job, of this attempt or the one before; empty: none.
  std::string note(std::uint64_t index) const;
  // The jobs at the beginning of `jobs`, which is not empty, that one lease may hold: the first job
  // if it has a note, else all before the first job with a note.
  IndexRange leasable_together(IndexRange jobs) const;

 private:
  friend class Batch;
  explicit Attempts(const Batch& batch) : batch_(batch) {}

  const Batch& batch_;
};

inline Batch::Attempts Batch::attempts() const { return Attempts(*this); }

}  // namespace locksley

// How often jobs were lost: they ran on a machine that went away.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

#include "core/base/index_range.h"
#include "core/batch/batch.h"

namespace locksley {

// Counts the losses of jobs, so that a job which brings down every machine that runs it is not run
// for ever. Losses are not failures: they use up no retries. They are in memory only. The count of
// a job is forgotten when a lease ends it; that of a job that ends otherwise (on this machine, or
// dropped) stays until its batch is over and room is needed.
//
// Owned by the code that has the leases. One thread at a time; nothing blocks; only allocation can
// fail. About 100 bytes for each counted job, at most `most_jobs` of them: if there are more, the
// counts of batches that are over are dropped. If that is not enough, all counts of the tenant with
// the most counts are dropped, then those of the next one, until an eighth is free. So the jobs of
// a tenant with few losses are counted, however many jobs others lose. A batch that was destroyed
// before all its lost jobs ended keeps the memory of its object, more than 1 KB, until its counts
// are dropped: they refer to it by a weak_ptr.
class LossCounts {
 public:
  // `most_losses`: a job that was lost this often is not run again; at least 1.
  explicit LossCounts(std::uint32_t most_losses, std::size_t most_jobs = 65'536);

  // Counts a loss of the job. True: it was the last one that the job may have; its count is
  // forgotten.
  [[nodiscard]] bool count(Batch& batch, std::uint64_t index);
  // The machine that was lost has come back with these jobs: one loss less for each. Returns how
  // many had a loss.
  std::uint64_t take_back(Batch& batch, IndexRange jobs);
  // The jobs have ended.
  void forget(Batch& batch, IndexRange jobs);

  std::uint32_t most_losses() const { return most_losses_; }
  // Jobs with losses.
  std::size_t size() const { return size_; }

 private:
  using Jobs = std::map<std::uint64_t, std::uint32_t>;  // losses, by index
  using Batches = std::map<std::weak_ptr<Batch>, Jobs, std::owner_less<std::weak_ptr<Batch>>>;

  // O(n log n). Called at most once in an eighth of `most_jobs` new counts, whatever the tenants
  // do.
  void make_room();
  void erase_if_empty(Batches::iterator batch);

  const std::uint32_t most_losses_;
  const std::size_t most_jobs_;
  Batches batches_;
  std::size_t size_ = 0;
};

}  // namespace locksley

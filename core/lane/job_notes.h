// What workers have said of their jobs: a checkpoint, which the next attempt gets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "core/base/index_range.h"
#include "core/batch/batch.h"

namespace locksley {

// The last note of each job that has one and has not ended well. In memory only: forgotten at a restart.
//
// Owned by the holder of the leases. One thread at a time; nothing blocks; only allocation can fail. At most
// `most_bytes` of text, each note counted with 100 bytes more: if there is more, the notes of batches that are over
// are dropped, and if that is not enough, the new note is not kept.
class JobNotes {
 public:
  explicit JobNotes(std::size_t most_bytes) : most_bytes_(most_bytes) {}

  // Replaces the job's note. False: there is no room, and the job has none now.
  bool set(Batch& batch, std::uint64_t index, std::string_view text);
  // Null: the job has none. Until the next call of another function.
  const std::string* find(const Batch& batch, std::uint64_t index) const;
  // The jobs at the beginning of `jobs`, which is not empty, that may be leased together: a job with a note alone,
  // else those before the first one with a note.
  IndexRange alone(const Batch& batch, IndexRange jobs) const;
  // The jobs have ended well.
  void forget(const Batch& batch, IndexRange jobs);

  std::size_t bytes() const { return bytes_; }

 private:
  static constexpr std::size_t kEach = 100;  // about what a note costs beside its text
  using Jobs = std::map<std::uint64_t, std::string>;
  using Batches = std::map<std::weak_ptr<const Batch>, Jobs, std::owner_less<std::weak_ptr<const Batch>>>;

  const Jobs* jobs_of(const Batch& batch) const;
  void drop_ended();

  const std::size_t most_bytes_;
  Batches batches_;
  std::size_t bytes_ = 0;
};

}  // namespace locksley

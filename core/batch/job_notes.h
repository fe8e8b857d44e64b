// The last note of each job: a checkpoint, which the job's next attempt gets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/index_range.h"

namespace locksley {

// A job with its note; an empty text: the job no longer has one.
struct NotedJob {
  std::uint64_t index = 0;
  std::string text;
  friend bool operator==(const NotedJob&, const NotedJob&) = default;
};

// The last note of each job of a batch that has one and has not ended well.
//
// Owned by NextAttempts, once a job of the batch has a note; guarded by the batch's mutex.
// Nothing blocks; only allocation can fail. At most kMostBytes, where each note counts as its text
// and kEach bytes: a new note that exceeds them is not kept.
class JobNotes {
 public:
  static constexpr std::size_t kMostText = 4096;       // of one note; the rest is cut off
  static constexpr std::size_t kMostBytes = 1U << 20;  // guess: 250 of the longest, 10,000 of one number
  static constexpr std::size_t kEach = 100;            // about how many bytes a note costs besides its text

  // Replaces the job's note; an empty text removes it. False: there is no room, and the job has
  // none now.
  bool set(std::uint64_t index, std::string_view text);
  // Null: the job has none. Valid until the next call of a function that is not const.
  const std::string* find(std::uint64_t index) const;
  // The first jobs of `jobs`, which is not empty, that may be leased together. A job with a note is
  // leased alone. So this is the first job if it has a note; else all jobs before the first one
  // that has a note.
  IndexRange leasable_together(IndexRange jobs) const;
  // The jobs have ended well.
  void forget(IndexRange jobs);

  // Ascending by index.
  std::vector<NotedJob> all() const;
  std::size_t bytes() const { return bytes_; }

 private:
  std::map<std::uint64_t, std::string> notes_;
  std::size_t bytes_ = 0;
};

}  // namespace locksley

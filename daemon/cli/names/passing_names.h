// Names on their way from the thread that sends jobs to the one that shows their results.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/sync/mutex.h"

namespace locksley::cli {

// The names of the inputs of a batch that is streamed in: one thread adds each name before its job
// is sent, another takes it with the job's result. A name takes its own length and 4 bytes. It is
// freed once the 1,024 names of its block were taken, so the names that are held are about those of
// the jobs that have not ended.
//
// Any thread may call its members; nothing blocks for longer than a copy of a name.
class PassingNames {
 public:
  // Adds the name of the next job.
  void add(std::string_view name);
  // Takes the name of the job with this index; call it once for each job. None if the name was not
  // added yet, or is freed.
  std::optional<std::string> take(std::uint64_t index);

  std::size_t held_blocks() const;  // for tests

 private:
  static constexpr std::size_t kBlockNames = 1024;

  struct Block {
    std::string text;                               // one name after the other
    std::array<std::uint32_t, kBlockNames> ends{};  // of each, in `text`
    std::size_t count = 0;
    std::size_t taken = 0;
  };

  mutable Mutex mutex_;
  std::deque<std::unique_ptr<Block>> blocks_ LOCKSLEY_GUARDED_BY(mutex_);  // null: freed
  std::uint64_t freed_in_front_ LOCKSLEY_GUARDED_BY(mutex_) = 0;           // blocks before blocks_[0]
};

}  // namespace locksley::cli

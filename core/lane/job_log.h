// The end of what a running job writes to standard error, and the memory of all such logs together.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/ring/result_account.h"

namespace locksley {

// How much memory the logs of running jobs have together, in blocks. The fair part of a log is the
// number of all blocks divided by the number of logs that have any. Once seven eighths are in use,
// a log that has its part gets no more: it goes on in its own oldest block, and a log that has more
// gives some back. So a new log finds room, whatever the others write.
//
// Shared by the lanes of a program; the last of them destroys it. Any thread may call everything.
// Nothing blocks or fails.
class LogBudget {
 public:
  static constexpr std::size_t kBlockBytes = 4096;  // a guess: a page

  explicit LogBudget(std::uint64_t most_bytes) { set_limit(most_bytes); }

  // Logs that have more keep it until they write next.
  void set_limit(std::uint64_t most_bytes) {
    // [log-budget] relaxed: numbers on their own.
    most_.store(most_bytes / kBlockBytes, std::memory_order_relaxed);
  }
  std::uint64_t bytes() const { return used_.load() * kBlockBytes; }

  // Takes one more block for a log that has `own` blocks. False: there is none.
  bool take(std::size_t own);
  // A log that had `own` blocks gives one back.
  void give(std::size_t own);
  // Whether a log with `own` blocks has more than its part, where blocks are short.
  bool has_too_many(std::size_t own) const;

 private:
  bool are_short() const { return used_.load() >= most() - most() / 8; }
  std::uint64_t part() const { return std::max<std::uint64_t>(1, most() / (logs_.load() + 1)); }
  std::uint64_t most() const {
    // [log-budget] relaxed: as above.
    return most_.load(std::memory_order_relaxed);
  }

  std::atomic<std::uint64_t> most_;
  std::atomic<std::uint64_t> used_{0};
  std::atomic<std::uint64_t> logs_{0};  // that have blocks
};

// The last kMost bytes that a job wrote, fewer where memory is short; and how many it wrote in all.
//
// Owned by a ShownJob, and guarded as it is. Nothing blocks; only allocation fails. Blocks are charged to the account of
// results, and none is added while that is full.
class JobLog {
 public:
  static constexpr std::size_t kMost = 64 * 1024;

  JobLog() = default;
  ~JobLog() { clear(); }
  JobLog(const JobLog&) = delete;
  JobLog& operator=(const JobLog&) = delete;

  // `budget`, `account`: null where nothing is counted. The same in all calls until clear().
  void add(std::string_view bytes, LogBudget* budget, ResultAccount* account);
  // Where it ends: how many bytes were written.
  std::uint64_t end() const { return end_; }
  // The bytes from `from` on, or from the oldest one that is there.
  std::string read(std::uint64_t from) const;
  // The last line that is not empty, without white space around it, cut to `most` bytes.
  std::string last_line(std::size_t most) const;
  void clear();

 private:
  struct Block {
    char bytes[LogBudget::kBlockBytes];
  };
  std::uint64_t begin() const { return end_ - size_; }
  // Makes room for more bytes: a block more, or its own oldest one. False: there is neither.
  bool grow();
  // Gives the oldest block back, with its bytes.
  void drop_oldest();

  std::vector<std::unique_ptr<Block>> blocks_;
  std::size_t first_ = 0;  // where the oldest byte lies in the first block
  std::size_t size_ = 0;   // bytes that are there
  std::uint64_t end_ = 0;
  LogBudget* budget_ = nullptr;
  ResultAccount* account_ = nullptr;
};

}  // namespace locksley

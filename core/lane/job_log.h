// The last bytes that a running job wrote to standard error, and the memory of all such logs
// together.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result_account.h"

namespace locksley {

// The memory for the logs of running jobs, in blocks: shared between users first, then between the
// logs of each user.
//
// A log gets a block only while its user has fewer blocks than are free. So a user has half of all
// blocks at most, if no other user has any; and the next user finds room, half of the free blocks,
// whatever the logs of others write. In the long run, n users whose logs write without end have
// 1/(n + 1) of the blocks each. (Dynamic thresholds with factor 1: Choudhury and Hahne, "Dynamic
// queue length thresholds for shared-memory packet switches", 1998.)
//
// A user's share is the number of blocks that this rule allows it now. A log's part is the share
// divided by the number of the user's logs that have blocks. Once seven eighths of the share are in
// use, a log that has its part gets no more blocks: it overwrites its own oldest one. A log that
// has more than its part frees a block when it writes. While the whole share is in use, the user's
// new logs keep nothing until its other logs free blocks or end.
//
// Users are told apart by the account of their results. Logs without an account count as one
// user's.
//
// Shared by the lanes of a program; the last of them destroys it. Any thread may call everything.
// Nothing blocks or fails.
class LogBudget {
 public:
  static constexpr std::size_t kBlockBytes = 4096;  // a guess: a page

  explicit LogBudget(std::uint64_t most_bytes) { set_limit(most_bytes); }

  // A log that has more than its new part keeps its blocks until its next write.
  void set_limit(std::uint64_t most_bytes) {
    // [log-budget] relaxed: numbers on their own.
    most_.store(most_bytes / kBlockBytes, std::memory_order_relaxed);
  }
  std::uint64_t bytes() const { return used_.load() * kBlockBytes; }

  // Takes one more block for a log that has `own` blocks. False: there is none. `account`: of the
  // log's user; null: it has none. All calls for one log pass the same account while the log has
  // blocks.
  bool take(ResultAccount* account, std::size_t own);
  // A log that had `own` blocks frees one.
  void give(ResultAccount* account, std::size_t own);
  // Whether a log with `own` blocks has more than its part, where its user's blocks are short.
  bool has_too_many(ResultAccount* account, std::size_t own);

 private:
  LogUse& use_of(ResultAccount* account) { return account != nullptr ? account->logs() : without_account_; }
  // The number of free blocks while `used` are in use.
  std::uint64_t free_beside(std::uint64_t used) const {
    // [log-budget] relaxed: as above.
    const std::uint64_t most = most_.load(std::memory_order_relaxed);
    return most > used ? most - used : 0;
  }
  // These functions read counters one after the other. If other threads change them meanwhile, a
  // log gets one block more or less than its part.
  std::uint64_t share(const LogUse& user) const {
    return (user.blocks.load() + free_beside(used_.load()) + 1) / 2;
  }
  bool are_short(const LogUse& user) const {
    const std::uint64_t most = share(user);
    return user.blocks.load() >= most - most / 8;
  }
  std::uint64_t part(const LogUse& user) const {
    return std::max<std::uint64_t>(1, share(user) / (user.logs.load() + 1));
  }

  std::atomic<std::uint64_t> most_;     // written by set_limit()
  std::atomic<std::uint64_t> used_{0};  // by take(), up to `most_`, and by give()
  LogUse without_account_;
};

// The last kMost bytes that a job wrote, fewer where memory is short; and how many it wrote in all.
//
// Owned by a ShownJob, and guarded as it is. Nothing blocks; only allocation fails. Blocks are
// charged to the account of results, and none is added while that is full.
class JobLog {
 public:
  static constexpr std::size_t kMost = 64 * 1024;

  JobLog() = default;
  ~JobLog() { clear(); }
  JobLog(const JobLog&) = delete;
  JobLog& operator=(const JobLog&) = delete;

  // `budget`, `account`: null where nothing is counted. The same in all calls until clear().
  void add(std::string_view bytes, LogBudget* budget, ResultAccount* account);
  // How many bytes were written in all: the position of the log's end.
  std::uint64_t end() const { return end_; }
  // The bytes from `from` on, or from the oldest one that is kept.
  std::string read(std::uint64_t from) const;
  // The last line that is not empty, without white space around it, cut to `most` bytes.
  std::string last_line(std::size_t most) const;
  void clear();

 private:
  struct Block {
    char bytes[LogBudget::kBlockBytes];
  };
  std::uint64_t begin() const { return end_ - size_; }
  // Makes room for more bytes: takes a block more, or overwrites its own oldest one. False: it has
  // none.
  bool grow();
  // Frees the oldest block, with its bytes.
  void drop_oldest();

  std::vector<std::unique_ptr<Block>> blocks_;
  std::size_t first_ = 0;  // where the oldest byte lies in the first block
  std::size_t size_ = 0;   // bytes that are kept
  std::uint64_t end_ = 0;
  LogBudget* budget_ = nullptr;
  ResultAccount* account_ = nullptr;
};

}  // namespace locksley

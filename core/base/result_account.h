// The account of the memory that results, or the records of failed jobs, take: those of one user,
// or of all users.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <utility>

#include "core/base/cache_line.h"

namespace locksley {

// How many log blocks the running jobs of one user occupy: one user's counters for LogBudget
// (core/lane/job_log.h), which alone changes and reads them. All logs of a user charge the same
// budget.
//
// A member of the user's ResultAccount, or of the budget. Any thread. All operations are seq_cst,
// and no other data depends on them.
struct LogUse {
  std::atomic<std::uint64_t> blocks{0};
  std::atomic<std::uint64_t> logs{0};  // that have blocks
};

// Counts the bytes of results that are in memory, with a limit. Accounts form a tree: what is
// charged to an account is charged to its parent as well (a user's account lies below that of all).
// A lane starts no more jobs of batches whose account is full, and executors end their turns with
// these batches. So a job that runs when the limit is reached may finish, but no job begins.
//
// An account is full if its bytes have reached its limit. It is also full if its parent is full and
// it has more than its `spare` bytes. So when others have filled the memory of all, a user with
// little in use can still use its spare bytes.
//
// Owned by the program; outlives all batches and lanes that refer to it. Any thread may call
// everything but on_change(). Nothing blocks or fails. charge() and refund() are one atomic
// addition for each level of the tree.
//
// Records of failed jobs (BatchOptions::failures) have an account of the same kind. No job waits
// for it: when it is full, a batch keeps less about its failures.
class ResultAccount {
 public:
  static constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

  // `parent`: null for the root. It outlives this.
  explicit ResultAccount(ResultAccount* parent = nullptr) : parent_(parent) {}
  ResultAccount(const ResultAccount&) = delete;
  ResultAccount& operator=(const ResultAccount&) = delete;

  // For the root only: sets the function that any thread calls after an account has reached its own
  // limit, and after an account that a lane waits for has room again. The caller may hold the mutex
  // of a batch, or of a lane's ShownJobs: the function must call neither. It may call
  // Lane::Groups::reopen_tenants(). It must be quick and must not throw. Set before the first
  // charge, and set again, to none, only when no other thread can charge or refund any more.
  void on_change(std::function<void()> changed) { changed_ = std::move(changed); }

  // Effective from the next is_full() on. The caller then calls Lane::Groups::reopen_tenants(): a
  // higher limit is no refund. 0: the account is always full.
  void set_limit(std::uint64_t limit_bytes, std::uint64_t spare_bytes = 0) {
    // [results-limit] relaxed: numbers on their own.
    limit_.store(limit_bytes, std::memory_order_relaxed);
    spare_.store(spare_bytes, std::memory_order_relaxed);
  }

  // A refund is at most the charge. The caller guarantees that, and sums below 2^64.
  void charge(std::uint64_t bytes);
  void refund(std::uint64_t bytes);

  std::uint64_t bytes() const { return bytes_.load(); }
  // The logs of the user's running jobs, whose bytes are charged here, too. For LogBudget.
  LogUse& logs() { return logs_; }
  std::uint64_t limit() const {
    // [results-limit] relaxed: a number on its own.
    return limit_.load(std::memory_order_relaxed);
  }
  bool is_full() const {
    const std::uint64_t used = bytes_.load();
    if (used >= limit()) return true;
    // [results-limit] relaxed: a number on its own.
    return parent_ != nullptr && used > spare_.load(std::memory_order_relaxed) && parent_->is_full();
  }

  // is_full() without this part of the charge, which belongs to a batch that may go on.
  bool is_full_without(std::uint64_t bytes) const;
  // is_full(), if the limits were half as large.
  bool is_half_full() const {
    const std::uint64_t used = bytes_.load();
    if (used >= limit() / 2) return true;
    // [results-limit] relaxed: a number on its own.
    return parent_ != nullptr && used > spare_.load(std::memory_order_relaxed) / 2 && parent_->is_half_full();
  }

  // For a lane that stops serving a tenant. Returns is_full(). If true, the next refund that makes
  // room calls on_change()'s function; rarely, a refund that makes none calls it, too.
  bool is_full_and_awaited() { return is_full() && await_room(); }

  // The charge of one batch. Not thread-safe: guarded like the results that it counts.
  class Charge {
   public:
    explicit Charge(ResultAccount* account) : account_(account) {}  // null: nothing is charged
    ~Charge() { set(0); }
    Charge(const Charge&) = delete;
    Charge& operator=(const Charge&) = delete;

    std::uint64_t bytes() const { return bytes_; }
    // From now on the charge is `bytes`.
    void set(std::uint64_t bytes) {
      if (account_ == nullptr || bytes == bytes_) return;
      const std::uint64_t before = std::exchange(bytes_, bytes);
      bytes > before ? account_->charge(bytes - before) : account_->refund(before - bytes);
    }

   private:
    ResultAccount* const account_;
    std::uint64_t bytes_ = 0;
  };

 private:
  // Marks this account, or the one above that is full, as awaited, and returns whether it is still
  // full. The mark is set before the bytes are read, and refund() writes the bytes before it reads
  // the mark, all seq_cst: so one of the two sees the other.
  bool await_room();
  ResultAccount& root() { return parent_ == nullptr ? *this : parent_->root(); }

  // Constant.
  ResultAccount* const parent_;
  std::function<void()> changed_;  // of the root; set by on_change()

  // Written by set_limit().
  std::atomic<std::uint64_t> limit_{kNoLimit};
  std::atomic<std::uint64_t> spare_{0};

  // On a cache line of their own: written by all executors of the account's batches.
  alignas(kCacheLine) std::atomic<std::uint64_t> bytes_{0};
  std::atomic<bool> is_awaited_{false};
  LogUse logs_;  // changes with bytes_, once a block
};

}  // namespace locksley

// How many blocks of the memory of all logs the logs of one user's running jobs occupy.
#pragma once

#include <atomic>
#include <cstdint>

namespace locksley {

// The counters of one user for LogBudget (core/lane/job_log.h), which alone changes and reads them. All logs of a user
// charge the same budget.
//
// A member of the user's ResultAccount, or of the budget. Any thread. All operations are seq_cst, and
// no other data depends on them.
struct LogUse {
  std::atomic<std::uint64_t> blocks{0};
  std::atomic<std::uint64_t> logs{0};  // that have blocks
};

}  // namespace locksley

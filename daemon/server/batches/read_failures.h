#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <span>
#include <string>

#include "daemon/store/failed_jobs.h"

namespace locksley::daemon {

// Which jobs of a batch failed, as the store's thread reads it for a batch that lacks their list. `is_done` is set on
// the I/O thread; then the batch's waiters are woken. Shared by that thread and the caller; the last of them drops it.
struct ReadFailures {
  bool is_done = false;
  // BatchStatus::retry_rounds when the read began. If that has changed, the list is of no use.
  std::uint64_t round = 0;
  // Once it is done. The error says why the list cannot be read.
  std::expected<FailedJobList, std::string> failed;
};

// What RETRY asks for.
struct RetryDemand {
  std::optional<std::uint64_t> round = {};  // only if BatchStatus::retry_rounds is this
  // Only these jobs, which must have failed; empty: all that have failed.
  std::span<const std::uint64_t> indexes = {};
};

}  // namespace locksley::daemon

#pragma once

#include <cstdint>
#include <expected>
#include <future>
#include <string>
#include <utility>

#include "daemon/store/store.h"

namespace locksley::testing {

// Which jobs of a batch failed, as the store's reader reads them. Needs: the store is not stopped;
// it outlives what is returned.
inline std::expected<daemon::FailedJobList, std::string> read_failed_jobs(daemon::Store& store,
                                                                          std::uint64_t sequence) {
  std::promise<std::expected<daemon::FailedJobList, std::string>> read;
  store.read_failed_jobs(sequence, daemon::Reader::kNoUser,
                         [&read](auto failed) { read.set_value(std::move(failed)); });
  return read.get_future().get();
}

// Puts the same list into `failed` of the batch's history, if load() or recover() has left it out.
// Changes nothing if it cannot be read.
inline void read_left_out(daemon::Store& store, daemon::StoredBatch& batch) {
  if (!batch.history.failed_unread) return;
  const auto failed = read_failed_jobs(store, batch.sequence);
  if (failed && failed->jobs == batch.history.totals.failed()) batch.history.failed = *failed->ranges;
}

}  // namespace locksley::testing

// Reads of batches from the store, by another thread for the I/O thread.
#pragma once

#include <asio/io_context.hpp>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <string>

#include "core/batch/result_log.h"
#include "daemon/base/loop/io_thread.h"
#include "daemon/base/loop/slices.h"
#include "daemon/server/batches/stored/job_search.h"
#include "daemon/server/records/batch_record.h"
#include "daemon/server/records/registry.h"
#include "daemon/server/records/results_page.h"
#include "daemon/store/read/failed_jobs.h"
#include "daemon/store/read/reader.h"

namespace locksley::daemon {

class Store;

// Which jobs of a batch failed, for a batch that lacks their list (Batch::Failures::lacks_list()).
struct ReadFailures {
  bool is_done = false;
  // BatchStatus::retry_rounds when the read began. If that has changed, the list is outdated.
  std::uint64_t round = 0;
  // Once it is done. The error says why the list cannot be read.
  std::expected<FailedJobList, std::string> failed;

  // Of the list.
  std::uint64_t memory_bytes() const {
    return failed && failed->ranges != nullptr ? failed->ranges->capacity() * sizeof(IndexRange) : 0;
  }
};

// Begins reads that must not hold up the I/O thread. The store's reader does them, and serves the
// users round robin.
//
// Each call returns at once, with an object that the read fills. As soon as the read has ended, the
// I/O thread sets its `is_done`, calls the function that was given (none, if it is empty), and
// wakes the waiters of the batch for BatchRecord::kReadRows. Until then only `round` may be read.
// If no client waits any more (Waiting), the read does not begin, or ends early.
// The object is shared by the caller and the read. If the caller has dropped it before the read
// ends, another thread frees a large object; otherwise the caller does (Batches::free_dropped()).
//
// Owned by Batches. The I/O thread only. Nothing blocks. A read that fails says so in its object;
// nothing else fails.
class StoreReads {
 public:
  struct Parts {
    asio::io_context& io;
    Slices& slices;
    Registry& registry;
    Store* store;   // null: there is none, and only find_job() and find_facts() may be called
    Reader& aside;  // searches for jobs where there is no store; frees large objects
  };
  explicit StoreReads(Parts parts) : parts_(parts) {}
  StoreReads(const StoreReads&) = delete;
  StoreReads& operator=(const StoreReads&) = delete;

  // Rows of results that are not in memory.
  struct ReadRows {
    bool is_done = false;
    std::expected<ResultsPage, std::string> page;  // the error says why they cannot be read

    std::size_t memory_bytes() const { return page ? page->memory_bytes() : 0; }
  };
  std::shared_ptr<const ReadRows> read_rows(std::shared_ptr<BatchRecord> record, const ResultsDemand& demand,
                                            Waiting client, std::function<void(const ReadRows&)> on_read)
      LOCKSLEY_REQUIRES(kIoThread);
  // Where a row lies in the store.
  struct FoundRow {
    bool is_done = false;
    std::expected<ResultLog::Place, std::string> place;  // the error says why it cannot be read
  };
  std::shared_ptr<const FoundRow> find_row(std::shared_ptr<BatchRecord> record, std::uint64_t row)
      LOCKSLEY_REQUIRES(kIoThread);
  // Which jobs failed.
  std::shared_ptr<const ReadFailures> read_failures(std::shared_ptr<BatchRecord> record,
                                                    std::function<void(const ReadFailures&)> on_read = {})
      LOCKSLEY_REQUIRES(kIoThread);
  // The result of one job, and its payload if that is not in memory and may be wanted. `most_rows`:
  // as in JobDemand.
  std::shared_ptr<const FoundJob> find_job(const std::shared_ptr<BatchRecord>& record, std::uint64_t index,
                                           std::uint64_t most_rows, Waiting client,
                                           std::function<void(const FoundJob&)> on_found)
      LOCKSLEY_REQUIRES(kIoThread);
  // The facts of the result of one job, without its output and payload.
  std::shared_ptr<const FoundJob> find_facts(const std::shared_ptr<BatchRecord>& record, std::uint64_t index,
                                             Waiting client, std::function<void(const FoundJob&)> on_found)
      LOCKSLEY_REQUIRES(kIoThread);

 private:
  std::shared_ptr<const FoundJob> search(const std::shared_ptr<BatchRecord>& record, const JobDemand& demand,
                                         std::function<void(const FoundJob&)> on_found)
      LOCKSLEY_REQUIRES(kIoThread);
  // The store's reader calls read(); then the I/O thread calls on_read().
  template <class Outcome>
  void begin(std::shared_ptr<BatchRecord> record, std::shared_ptr<Outcome> outcome,
             std::function<void(const BatchRecord&, Outcome&)> read,
             std::function<void(const Outcome&)> on_read) LOCKSLEY_REQUIRES(kIoThread);

  const Parts parts_;
};

}  // namespace locksley::daemon

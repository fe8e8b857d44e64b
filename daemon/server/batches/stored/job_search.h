// The search for the result of one job, by another thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/index_range.h"
#include "core/base/job.h"
#include "daemon/base/loop/io_mailbox.h"
#include "daemon/server/batches/stored/search_order.h"
#include "daemon/server/records/batch_record.h"
#include "daemon/store/read/reader.h"

namespace locksley::daemon {

// The client for which another thread reads. It expires, on the I/O thread, when no client waits
// any more: the read then ends at once, without a result, and does not call its function.
using Waiting = std::weak_ptr<const void>;

// A request to JobSearch.
struct JobDemand {
  Waiting client = {};
  std::uint64_t index = 0;
  // About how many rows to search for its result; 0: the job has no result.
  std::uint64_t most_rows = ~std::uint64_t{0};
  bool wants_output = true;  // else FoundJob::Row::output stays empty
  // The source of the payload, if it is wanted and may still exist: a range to compute it from, or
  // payloads to read. Both null: do not read it.
  OpenRange open_range = {};
  std::shared_ptr<PayloadSource> payloads = {};
};

// The result of a search; the I/O thread sets `is_done`. Shared by the search and the caller. If
// the caller has dropped it when the search is done, the reader's thread frees a large one.
struct FoundJob {
  bool is_done = false;
  std::string error;  // not empty: why the store cannot be read, or cannot be read now
  struct Row {
    JobStatus status = JobStatus::kOk;
    std::string output;
    std::string facts;  // core/batch/job_facts.h
  };
  std::optional<Row> row;
  std::optional<std::string> payload;

  std::size_t memory_bytes() const {
    return (row ? row->output.size() + row->facts.size() : 0) + (payload ? payload->size() : 0);
  }
};

// Looks for the row of one job among the results of its batch, and reads its payload.
//
// It finds most rows in its first step (SearchOrder); at worst it looks at all rows, in tasks of
// some milliseconds, between which the reader serves others. A payload of many megabytes is
// computed from its pattern in such tasks, too; between those, the reader serves only other users,
// so that a user with many searches has at most one such payload half made. A search for which no
// client waits any more ends with its next task.
//
// Owned by its tasks, which run on the reader's thread and may block on the disk. The I/O thread
// calls begin().
class JobSearch {
 public:
  using Post = std::function<void(Reader::Task, Reader::Place)>;

  // `post` runs a task on the reader's thread. `on_found` is called on the I/O thread, when it is
  // done, unless JobDemand::client has expired.
  static std::shared_ptr<const FoundJob> begin(asio::io_context& io, Post post,
                                               std::shared_ptr<BatchRecord> record, const JobDemand& demand,
                                               std::function<void(const FoundJob&)> on_found)
      LOCKSLEY_REQUIRES(kIoThread);

  JobSearch(asio::io_context& io, Post post, std::shared_ptr<BatchRecord> record, const JobDemand& demand,
            std::function<void(const FoundJob&)> on_found);

 private:
  // Each task holds the search, and the last one passes it to the I/O thread, to which the record
  // belongs.
  static void post_step(std::shared_ptr<JobSearch> self, Reader::Place place = Reader::Place::kLast);
  static void step(std::shared_ptr<JobSearch> self);
  // False: the reader must serve others before the search goes on.
  bool search_rows();
  // Looks at some rows from the first one on, and returns how many.
  std::uint64_t look_at(IndexRange rows);
  // Whether the payload may still be there.
  bool wants_payload() const;
  // False: as search_rows().
  bool read_payload();
  bool compute_payload();
  // The payload cannot be read now.
  bool fail_for_now();
  static void finish(std::shared_ptr<JobSearch> self);

  IoMailbox& mailbox_;
  const Post post_;
  const Waiting client_;
  const std::shared_ptr<BatchRecord> record_;
  JobDemand demand_;
  std::function<void(const FoundJob&)> on_found_;
  std::shared_ptr<FoundJob> found_ = std::make_shared<FoundJob>();

  SearchOrder order_;
  std::uint64_t looked_at_ = 0;
  IndexRange pending_{0, 0};  // rows that order_ has returned and look_at() has not seen yet
  bool has_looked_ = false;

  // The payload, as far as it has been computed.
  std::shared_ptr<const RangePayloads> range_;
  std::size_t pattern_at_ = 0;
  std::string payload_;
};

}  // namespace locksley::daemon

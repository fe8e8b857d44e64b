// Replies about a batch.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/time.h"
#include "daemon/server/records/batch_record.h"
#include "daemon/server/records/results_page.h"
#include "proto/reply_writer.h"
#include "proto/submit_options.h"

namespace locksley::daemon {

// The map of STATUS.
void write_status(proto::ReplyWriter& reply, const BatchRecord& record, const BatchStatus& status);

// Writes the array of RUN, part by part: [status, output] of each job, in the order of the indexes.
// Outputs that `keep` excludes are empty.
//
// On the stack of the code that writes the reply; the record, which is over and has a row for each
// job, and the buffer outlive it. The I/O thread only. Nothing blocks. If the outputs take more
// than `max_bytes`, nothing is written.
class RunOutputs {
 public:
  RunOutputs(const BatchRecord& record, std::uint64_t jobs, proto::Keep keep, std::uint64_t max_bytes,
             proto::ReplyWriter reply);
  RunOutputs(const RunOutputs&) = delete;
  RunOutputs& operator=(const RunOutputs&) = delete;

  // Goes on until about `until`. True: all is done.
  bool go_on(Instant until);
  // Once all is done: the text of the error reply; empty: the array is in the buffer.
  const std::string& error() const { return error_; }
  // The bytes of this object, and of the reply that it will write.
  std::uint64_t memory_bytes() const { return jobs_ * sizeof(std::uint64_t) + total_; }

 private:
  enum class Step : std::uint8_t { kMeasure, kPlace, kWrite, kCopy, kDone };
  struct Free {
    void operator()(std::uint64_t* numbers) const { std::free(numbers); }
  };
  struct Large {
    char* to;
    std::string_view left;
  };

  std::string_view output_of(const ResultRow& row) const;
  void measure();
  void place();
  void write();
  void copy();

  const BatchRecord& record_;
  const proto::Keep keep_;
  const std::uint64_t max_bytes_;
  proto::ReplyWriter reply_;
  const std::uint64_t jobs_;
  Step step_ = Step::kMeasure;
  std::uint64_t next_ = 0;  // row, or index
  // By index: the bytes of the job's element, and then its place. By calloc: its pages come one by
  // one.
  std::unique_ptr<std::uint64_t[], Free> places_;
  std::uint64_t total_ = 0;
  char* begin_ = nullptr;
  std::vector<Large> large_;  // outputs that are copied last, in kCopy
  std::string error_;
};

// The reply of RESULTS: [next-cursor, [[index, status, output], …]]. row_of_cursor() says what a
// cursor means.
void write_results(proto::ReplyWriter& reply, const ResultsPage& page);

}  // namespace locksley::daemon

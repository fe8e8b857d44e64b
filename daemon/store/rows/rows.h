// The store's rows and their encoding.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/index_range.h"
#include "core/batch/batch.h"
#include "core/batch/batch_journal.h"
#include "core/batch/result_log.h"
#include "core/batch/shared_text.h"
#include "daemon/store/engine/key.h"
#include "proto/customer_settings.h"

namespace locksley::daemon {

// A batch as it was accepted. Written once, never changed.
struct AcceptedRow {
  std::string handler;
  BatchOptions options;  // with the batch's id
  bool id_is_chosen = false;
  bool is_streamed = false;  // by OPEN: ChangesRow has the number of jobs and whether the batch is closed
  std::int64_t submitted_at = 0;
  std::int64_t deadline_at = 0;  // Unix milliseconds; 0: none
  std::int64_t retain_ms = 0;
  std::uint64_t jobs = 0;
  std::uint64_t payload_bytes = 0;
  struct Range {
    std::int64_t low;
    // The pattern; none: the payloads are decimals, or the pattern lies apart and was not read.
    SharedText payload;
    bool is_apart = false;  // the pattern lies in a row of payloads
  };
  std::optional<Range> range;
  struct Digest {
    std::uint64_t low;
    std::uint64_t high;
  };
  // Of the payloads, or of a pattern that lies apart; only if the client chose the id, and so may
  // send it again.
  std::optional<Digest> digest;
  std::int64_t start_at = 0;  // no job starts before; Unix milliseconds, 0: at once
  struct After {
    std::uint64_t sequence;
    std::string id;
    bool only_if_ok;
  };
  std::vector<After> after;  // the batches that this one waits for, ascending by sequence
};

// The changes that commands have made since the batch was accepted. The I/O thread writes the whole
// row at each change.
struct ChangesRow {
  std::uint64_t jobs = 0;           // of a batch whose jobs are streamed
  std::uint64_t payload_bytes = 0;  // likewise
  bool is_closed = false;
  bool is_paused = false;
  bool is_cancelled = false;
  std::string stop_reason;
  std::uint32_t weight = 1;
  std::uint32_t attempt = 1;
  bool has_no_deadline = false;  // the batch had ended, and then its failed jobs were queued again
  bool is_released = false;      // the batch no longer waits for any other
  // If not released, the batches that this one no longer waits for: bit i is that of
  // AcceptedRow::after[i]. If such a batch has been evicted since, this is the only record of its
  // end.
  std::string satisfied;
  // BatchStatus::discarded and discarded_bytes: results that a client has discarded.
  std::uint64_t discarded_rows = 0;
  std::uint64_t discarded_bytes = 0;
  std::optional<std::uint32_t> slots;  // as a command has set it; absent: as it was accepted

  bool is_satisfied(std::size_t i) const {
    return i / 8 < satisfied.size() && (static_cast<unsigned char>(satisfied[i / 8]) >> (i % 8) & 1) != 0;
  }
  void set_satisfied(std::size_t i) {
    if (satisfied.size() <= i / 8) satisfied.resize(i / 8 + 1);
    satisfied[i / 8] = static_cast<char>(satisfied[i / 8] | 1 << (i % 8));
  }
};

// The settings of a user's customer (CUSTOMER SET).
struct CustomerRow {
  std::string user;
  std::string customer;
  proto::CustomerSettings settings;
};

// Whether the row of the acceptance leaves the pattern out, so that a row of payloads must have it,
// as its only payload. To read the batch then takes some hundred bytes, however long its pattern
// is.
bool lies_apart(const AcceptedRow::Range& range);

// The bytes that the texts of a batch, and the batches that it waits for, take in the row of its
// acceptance: these are the parts of the row, besides payloads, that a command can make long.
// `options`: those of the command, or of the batch. `after`: a list of batches with their ids.
std::uint64_t text_bytes(const auto& options, const auto& after) {
  constexpr std::uint64_t kAfterBytes =
      12;  // the number of a batch, the length of its id, and a flag, at most
  std::uint64_t bytes =
      options.id.size() + options.name.size() + options.customer.size() + options.trace.size();
  for (const auto& each : after) bytes += kAfterBytes + each.id.size();
  return bytes;
}
// The same for a row, with the pattern if it is inside the row.
std::uint64_t text_bytes(const AcceptedRow& row);
// The longest pattern, in bytes, that is written inside the row of the acceptance. Guess: a page of
// a file.
inline constexpr std::size_t kMostPatternInside = 4096;

// New fields are added at the end of rows, and written only if they differ from their default. So
// rows of an earlier version can be read, and a row that uses no new field is written as before.

// Each decoder returns none for bytes that no encoder wrote. decode() is false for these, and needs
// a row of default values: a start reads a million rows into their places, where moving each would
// take a tenth of the time.
std::string encode(const AcceptedRow& row);
bool decode(std::string_view bytes, AcceptedRow& row);
std::optional<AcceptedRow> decode_accepted(std::string_view bytes);
std::string encode(const ChangesRow& row);
std::optional<ChangesRow> decode_changes(std::string_view bytes);

// The settings of a customer alone: the names are in the key.
std::string encode(const proto::CustomerSettings& settings);
std::optional<proto::CustomerSettings> decode_settings(std::string_view bytes);

// The failed jobs of a step: BatchStep::all_failed if it has jobs, otherwise BatchStep::failed.
std::span<const IndexRange> failed_ranges(const BatchStep& step);
// A step without its results. The last step is the end of the batch. `failed_apart`: its failed
// jobs are not in this row, but in rows of their own, as so many ranges; 0: they are in this row.
std::string encode(const BatchStep& step, std::uint64_t failed_apart = 0);
struct StepRow {
  std::vector<IndexRange> ended;
  EndedJobs totals;
  std::uint64_t rows = 0;  // results of all steps so far
  std::uint64_t result_bytes = 0;
  std::int64_t started_at = 0;
  std::int64_t finished_at = 0;
  bool cancelled = false;
  std::string stop_reason;
  // As in BatchStep.
  std::vector<IndexRange> failed;
  std::vector<IndexRange> requeued;
  std::vector<JobAttempts> job_attempts;
  std::uint64_t retried = 0;
  std::uint64_t superseded = 0;
  std::uint64_t retry_rounds = 0;
  SupersededList superseded_jobs;
  std::vector<NotedJob> notes;
  std::uint64_t failed_apart = 0;  // the failed jobs are in rows of their own, as so many ranges
};
bool decode(std::string_view bytes, StepRow& row);
std::optional<StepRow> decode_step(std::string_view bytes);

// A part of the failed jobs of a batch that is over.
std::string encode_failed(std::span<const IndexRange> ranges);
std::optional<std::vector<IndexRange>> decode_failed(std::string_view bytes);

// A small batch has two rows in its life: the row of its acceptance has its payloads inside, and,
// if all its jobs end in one step and none fails, the row of its end has its results inside. Such a
// row begins with two bytes with which no other row begins.
struct SplitRow {
  std::string_view row;     // as decode_accepted() or decode_step() takes it
  std::string_view inside;  // an encoded chunk of payloads, or encoded results; empty: none
};
// None for bytes that no encoder wrote. Views of `bytes`.
std::optional<SplitRow> split_row(std::string_view bytes);
std::string join_rows(std::string_view row, std::string_view inside);
// The most bytes of payloads, or of results, inside a row. Guess: the index, which each start reads
// as a whole, stays small.
inline constexpr std::size_t kMostInside = 512;
// Whether the row of this step has its results inside. Only the last step of a batch can, if it is
// the batch's only step.
bool has_results_inside(const BatchStep& step);
// Whether a batch that is over, and that this process accepted, has had such a step. It then has no
// row of results.
bool has_results_inside(const BatchStatus& status);

// The results of a step. The key holds their place in the log. A row takes 2 or 3 bytes more than
// its output.
std::string encode(const ResultLog::Rows& rows);
// Visits at most `most` rows, beginning with row number `skip`, until `visit` returns false.
// Returns the number of rows in `bytes`, and of those consumed; none for bytes that no encoder
// wrote.
struct VisitedRows {
  std::uint64_t rows;
  std::uint64_t consumed;
};
std::optional<VisitedRows> visit_rows(std::string_view bytes, std::uint64_t skip, std::uint64_t most,
                                      const std::function<bool(const ResultRow&)>& visit);

// ResultLog::Rows::bytes_before of encoded results. 0 for results that an earlier version stored,
// which did not write it.
std::uint64_t bytes_before(std::string_view bytes);

// A decoded chunk of payloads: their number, the end of each, and their bytes. Access by index is
// O(1). A view: does not own its bytes.
class PayloadChunk {
 public:
  // `bytes` outlives it. None for bytes that no encoder wrote.
  static std::optional<PayloadChunk> of(std::string_view bytes);

  std::uint64_t size() const { return ends_.size() / sizeof(std::uint32_t); }
  std::string_view operator[](std::uint64_t i) const {
    const std::size_t begin = i == 0 ? 0 : end_of(i - 1);
    return payloads_.substr(begin, end_of(i) - begin);
  }

 private:
  PayloadChunk(std::string_view ends, std::string_view payloads) : ends_(ends), payloads_(payloads) {}
  std::size_t end_of(std::uint64_t i) const;

  std::string_view ends_;  // 32 bits each, little-endian
  std::string_view payloads_;
};
// `payloads` must have less than 4 GiB in total.
std::string encode_payload_chunk(std::span<const std::string_view> payloads);

// Kinds of rows of the index.
inline constexpr char kAcceptedKey = 'b';
inline constexpr char kChangesKey = 'c';
inline constexpr char kEndKey = 'e';     // the last step
inline constexpr char kFailedKey = 'f';  // failed jobs, in rows of their own
inline constexpr char kStepKey = 's';    // all other steps
// The kinds of rows from which a start puts the batches together.
inline constexpr std::array kRecoveredKinds{kAcceptedKey, kChangesKey, kEndKey, kStepKey};
// All kinds of rows of batches.
inline constexpr std::array kBatchKinds{kAcceptedKey, kChangesKey, kEndKey, kFailedKey, kStepKey};
// kCustomerKey (key.h): the user's name, '/', and the customer's.
std::string customer_key(std::string_view user, std::string_view customer);
// The names in such a key; none if it is damaged.
struct CustomerNames {
  std::string_view user;
  std::string_view customer;
};
std::optional<CustomerNames> names_in(std::string_view customer_key);
// Kinds of rows that a store has once, without a batch.
inline constexpr char kFormKey = 'm';         // the format of the rows
inline constexpr char kFirstMarkedKey = 'n';  // the first batch whose results that are not ok all have marks
inline constexpr char kNumbersKey = 'q';      // the lowest number that no batch may have had: 8 bytes
inline Key row_key(char kind, std::uint64_t sequence) { return Key(kind).append(sequence); }
inline Key step_key(std::uint64_t sequence, std::uint64_t number) {
  return row_key(kStepKey, sequence).append(number);
}
// The key of the `number`th row of failed jobs.
inline Key failed_key(std::uint64_t sequence, std::uint64_t number) {
  return row_key(kFailedKey, sequence).append(number);
}
// The key of a chunk of payloads, by the index of its first job; or of results, by the number of
// their first row.
inline Key part_key(std::uint64_t sequence, std::uint64_t first) {
  return Key().append(sequence).append(first);
}
// Marks lie behind the results of their batch. A mark says that the results of the step which
// begins with this row have some that are not ok. It has no value.
inline constexpr std::uint64_t kMarkBit = std::uint64_t{1} << 63;
inline Key mark_key(std::uint64_t sequence, std::uint64_t first) {
  return part_key(sequence, first | kMarkBit);
}
// The number at the end of a key of payloads, results or steps.
inline std::uint64_t last_number(std::string_view key) {
  return key_number(key.substr(key.size() - sizeof(std::uint64_t)));
}

}  // namespace locksley::daemon

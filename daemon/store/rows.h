// What the store writes: its rows, and their form in bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/batch.h"
#include "core/batch_journal.h"
#include "core/index_range.h"
#include "core/result_log.h"

namespace locksley::daemon {

// A batch as it was accepted. Written once.
struct AcceptedRow {
  std::string handler;
  BatchOptions options;  // its id, too
  bool id_is_chosen = false;
  bool is_streamed = false;  // by OPEN: how many jobs it has, and whether it is closed, ChangesRow says
  std::int64_t submitted_at = 0;
  std::int64_t deadline_at = 0;  // Unix milliseconds; 0: none
  std::int64_t retain_ms = 0;
  std::uint64_t jobs = 0;
  std::uint64_t payload_bytes = 0;
  struct Range {
    std::int64_t low;
    std::optional<std::string> payload;
  };
  std::optional<Range> range;
  struct Digest {
    std::uint64_t low;
    std::uint64_t high;
  };
  std::optional<Digest> digest;  // of the payloads, where the id may come again
  std::int64_t start_at = 0;     // no job starts before; Unix milliseconds, 0: at once
  struct After {
    std::uint64_t sequence;
    std::string id;
    bool only_if_ok;
  };
  std::vector<After> after;  // the batches that it waits for, by sequence
};

// What commands have made of it since. Written whole at each, by the I/O thread alone.
struct ChangesRow {
  std::uint64_t jobs = 0;           // of one that is streamed in
  std::uint64_t payload_bytes = 0;  // likewise
  bool is_closed = false;
  bool is_paused = false;
  bool is_cancelled = false;
  std::string stop_reason;
  std::uint32_t weight = 1;
  std::uint32_t attempt = 1;
  bool has_no_deadline = false;  // it was over, and its failed jobs were queued again
  bool is_released = false;      // it waits for no other batch any more
  // Else for which no longer: bit i is that of AcceptedRow::after[i]. Where these have gone meanwhile, this
  // is all that is known of them.
  std::string satisfied;

  bool is_satisfied(std::size_t i) const {
    return i / 8 < satisfied.size() && (static_cast<unsigned char>(satisfied[i / 8]) >> (i % 8) & 1) != 0;
  }
  void set_satisfied(std::size_t i) {
    if (satisfied.size() <= i / 8) satisfied.resize(i / 8 + 1);
    satisfied[i / 8] = static_cast<char>(satisfied[i / 8] | 1 << (i % 8));
  }
};

// Rows have grown at their end: what is behind is written only where it says something, so that what an
// earlier version wrote can be read, and what uses nothing new is written as it was.

// Each decoder returns none for bytes that no encoder wrote.
std::string encode(const AcceptedRow& row);
std::optional<AcceptedRow> decode_accepted(std::string_view bytes);
std::string encode(const ChangesRow& row);
std::optional<ChangesRow> decode_changes(std::string_view bytes);

// A step without its rows. The last one is the batch's end.
std::string encode(const BatchStep& step);
struct StepRow {
  std::vector<IndexRange> ended;
  EndedJobs totals;
  std::uint64_t rows = 0;  // of all steps so far
  std::uint64_t result_bytes = 0;
  std::int64_t started_at = 0;
  std::int64_t finished_at = 0;
  bool cancelled = false;
  std::string stop_reason;
  // As in BatchStep.
  std::vector<IndexRange> failed;
  std::vector<IndexRange> requeued;
  std::vector<TriedJobs> tried;
  std::uint64_t retried = 0;
  std::uint64_t superseded = 0;
};
std::optional<StepRow> decode_step(std::string_view bytes);

// The rows of a step, without its place in the log, which is in the key. 2 or 3 bytes a row beside its
// output.
std::string encode(const ResultLog::Slice& rows);
// Visits the rows from the `skip`-th on until `visit` returns false. How many rows there are in all, and how
// many were consumed; none for bytes that no encoder wrote.
struct VisitedRows {
  std::uint64_t rows;
  std::uint64_t consumed;
};
std::optional<VisitedRows> visit_rows(std::string_view bytes, std::uint64_t skip, std::uint64_t most,
                                      const std::function<bool(const ResultRow&)>& visit);

// A chunk of payloads: how many, where each ends, their bytes. Any of them is found in one step.
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
// Of less than 4 GiB in all.
std::string encode_payload_chunk(std::span<const std::string_view> payloads);

// Keys. `k...` are the letters that they begin with.
inline constexpr char kAcceptedKey = 'b';
inline constexpr char kChangesKey = 'c';
inline constexpr char kEndKey = 'e';   // the last step
inline constexpr char kStepKey = 's';  // all others
std::string row_key(char kind, std::uint64_t sequence);
std::string step_key(std::uint64_t sequence, std::uint64_t number);
// Of payloads by first index, of results by first row.
std::string part_key(std::uint64_t sequence, std::uint64_t first);

}  // namespace locksley::daemon

// The results of a batch: an append-only log in the order of completion, read by cursor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/index_range.h"
#include "core/base/job.h"

namespace locksley {

// One row: the job's index, its status, its output or the text of its error, and what is known of
// how it ran (core/batch/job_facts.h; empty: nothing). The views are valid during the visit only.
struct ResultRow {
  std::uint64_t index;
  JobStatus status;
  std::string_view output;
  std::string_view facts = {};
};

// A row in memory: this head, then `length` bytes, padded so that the next head is aligned. The
// bytes are the output; with `has_facts`, then the facts, then how many bytes the facts have, in
// kFactsLength bytes. Workers write rows in this form, so that a publication is one copy of bytes,
// without work for each row.
struct ResultHead {
  std::uint64_t index;
  std::uint32_t length;
  JobStatus status;
  std::uint8_t has_facts;  // 0 or 1
  std::uint8_t unused[2] = {};

  static constexpr std::size_t kFactsLength = sizeof(std::uint32_t);
  static constexpr std::size_t kLongest = ~std::uint32_t{0};  // of `length`
  static void append_facts_length(std::string& facts) {
    const auto length = static_cast<std::uint32_t>(facts.size());
    facts.append(reinterpret_cast<const char*>(&length), sizeof length);
  }
  // Splits the bytes of a row with facts. If they are damaged, all of them become the output.
  static ResultRow with_facts(std::uint64_t index, JobStatus status, std::string_view bytes);
  ResultRow row(std::string_view bytes) const {
    return has_facts != 0 ? with_facts(index, status, bytes) : ResultRow{index, status, bytes};
  }

  // The bytes of a row whose head this is. `row` begins with the head.
  std::string_view text_in(std::span<const std::byte> row) const {
    return {reinterpret_cast<const char*>(row.data() + sizeof(ResultHead)), length};
  }
  static constexpr std::size_t bytes_of(std::size_t length) {
    return (sizeof(ResultHead) + length + alignof(ResultHead) - 1) & ~(alignof(ResultHead) - 1);
  }
};
static_assert(sizeof(ResultHead) == 16);

// Rows in this form, one after the other. Borrows them.
struct EncodedRows {
  std::span<const std::byte> bytes;
  std::uint64_t count = 0;
};

// Appends a row without facts, padded for the next head. Needs: `output` is no longer than
// ResultHead::kLongest.
void append_row(std::vector<std::byte>& rows, std::uint64_t index, JobStatus status, std::string_view output);

// Calls visit(head, row) for each of the rows. `row`: its bytes, head and padding included.
template <class Visit>
void for_each_row(const EncodedRows& rows, Visit visit) {
  std::span<const std::byte> left = rows.bytes;
  for (std::uint64_t i = 0; i < rows.count; ++i) {
    ResultHead head;
    std::memcpy(&head, left.data(), sizeof head);
    const std::span<const std::byte> row = left.first(ResultHead::bytes_of(head.length));
    visit(head, row);
    left = left.subspan(row.size());
  }
}

// There is no memory for a copy of the rows. Nothing has changed.
class NoMemoryForRows final : public std::bad_alloc {
 public:
  const char* what() const noexcept override { return "no memory for results"; }
};

// The log. Its oldest rows may be in the batch's journal only, or discarded.
//
// Owned by its batch, which guards it with its own mutex (Batch::log_); prepare() and visit() need
// no mutex. A snapshot is immutable: any thread may read it, without the mutex, as long as it holds
// the snapshot. Nothing blocks. Memory: the rows, in chunks that grow from 512 bytes to 256 KiB,
// plus some 150 bytes a chunk. A publication of at most 128 bytes into an empty log, and every one
// of 4 KiB or more, has a chunk of exactly its size.
class ResultLog {
 public:
  struct Chunk {
    std::unique_ptr<std::byte[]> bytes;  // rows; null: it has runs
    std::size_t capacity = 0;
    // Jobs that never ran, without rows of their own. Empty: it has rows.
    std::vector<IndexRange> runs;
    JobStatus run_status = JobStatus::kCancelled;
    std::string run_reason;
  };
  // A stretch of rows in one chunk.
  struct Segment {
    std::shared_ptr<const Chunk> chunk;
    std::uint64_t first_row;  // its place in the log
    std::uint64_t rows;
    std::size_t size_bytes;  // used bytes of the chunk
    bool has_others;         // some rows are not ok
  };

  // Rows that were appended together, as a journal keeps them.
  struct Rows {
    std::shared_ptr<const Chunk> chunk;  // null: no rows
    std::size_t offset = 0;              // of the first row in the chunk's bytes
    std::size_t size_bytes = 0;
    std::uint64_t first_row = 0;  // its place in the log
    std::uint64_t rows = 0;
    std::uint64_t bytes_before = 0;  // of the rows before these, as in appended_bytes()
    bool has_others = false;         // some of them are not ok
  };

  // The beginning of a stretch of rows that are freed together: of a chunk in memory, or of a step
  // in a journal.
  struct Place {
    std::uint64_t first_row = 0;
    std::uint64_t bytes_before = 0;  // of the rows before it, as in appended_bytes()
    friend bool operator==(const Place&, const Place&) = default;
  };

  // Rows that are ready to be appended. Many bytes are copied here, outside the batch's mutex.
  // prepare() throws NoMemoryForRows.
  struct Prepared {
    std::shared_ptr<Chunk> chunk;  // null: the bytes are few, and append() copies them
    EncodedRows rows;
    bool has_others = false;  // some of them are not ok
  };
  // Whether some of the rows may be other than ok.
  enum class OtherRows : bool { kNone, kPossible };
  static Prepared prepare(const EncodedRows& rows, OtherRows others = OtherRows::kNone);

  // Allocates all that append(), the next call, will need for these rows, or for fewer without a
  // chunk. Throws NoMemoryForRows.
  void reserve(const Prepared& prepared);
  // Appends rows in the form of ResultHead. Allocates nothing, and so cannot fail, after
  // reserve().
  Rows append(Prepared prepared);
  // Appends a row for each of these jobs, which never ran: one chunk, with 16 bytes a run.
  Rows append_runs(std::span<const IndexRange> runs, JobStatus status, std::string reason);
  // The segments with the existing rows of [first, first + max_rows), or only the first of these
  // segments: at most kMostSegments, and no more once those after the first have `max_bytes`
  // together. At least one if row `first` exists. Needs: first >= first_row().
  std::vector<Segment> snapshot(std::uint64_t first, std::uint64_t max_rows,
                                std::uint64_t max_bytes = kSnapshotBytes) const;
  static constexpr std::size_t kMostSegments = 256;          // some 50 us; to drop them, 20 us
  static constexpr std::uint64_t kSnapshotBytes = 1U << 20;  // a guess
  // The segments from row `first` on that have at least one row that is not ok: at most `most`,
  // among the next kMostPassed segments. `end`: the row at which the search stopped; all rows from
  // `first` to `end` that are in none of the segments are ok. Needs: first >= first_row().
  struct Others {
    std::vector<Segment> segments;
    std::uint64_t end = 0;
  };
  static constexpr std::size_t kMostPassed = 10'000;  // some 50 us
  Others others(std::uint64_t first, std::size_t most) const;

  // The log, which is empty, begins after `rows` rows of `bytes` bytes that are not in memory. The
  // first `discarded` of these, of about `discarded_bytes` bytes, were discarded.
  void begin_at(std::uint64_t rows, std::uint64_t bytes, std::uint64_t discarded = 0,
                std::uint64_t discarded_bytes = 0) {
    first_row_ = rows_ = rows;
    appended_bytes_ = bytes;
    discarded_ = discarded < rows ? discarded : rows;
    discarded_bytes_ = discarded_bytes < bytes ? discarded_bytes : bytes;
  }
  // Frees the chunks, at most `most`, whose rows all lie below `row`. False: there are more such
  // chunks.
  bool drop_before(std::uint64_t row, std::size_t most = ~std::size_t{0});

  // Where the chunk with this row begins; with a row that does not exist yet, the end of the log.
  // None if the row is not in memory.
  std::optional<Place> place_of(std::uint64_t row) const;
  // The existing rows below `row`, which lies at `place`, cannot be read any more. The caller then
  // frees the rows before the place: in memory by drop_before().
  void discard_before(std::uint64_t row, const Place& place);

  std::uint64_t rows() const { return rows_; }
  // Rows below this one are not in memory.
  std::uint64_t first_row() const { return first_row_; }
  std::uint64_t memory_bytes() const { return memory_bytes_; }
  // Bytes of all rows that were ever appended, in a compact form: their outputs, and a few more.
  std::uint64_t appended_bytes() const { return appended_bytes_; }
  // Rows below this one were discarded; and the bytes of those that lie before its place.
  std::uint64_t discarded() const { return discarded_; }
  std::uint64_t discarded_bytes() const { return discarded_bytes_; }

  // Visits the rows of `segments` from `first` on that are not ok, each with its place, until
  // `visit` returns false. Returns the row for which it did; else `end`.
  static std::uint64_t visit_others(std::span<const Segment> segments, std::uint64_t first, std::uint64_t end,
                                    const std::function<bool(std::uint64_t, const ResultRow&)>& visit);

  // Visits rows [first, first + max_rows) of `segments` in order until `visit` returns false; the
  // row for which it does counts as not consumed. Returns the number of rows consumed.
  static std::uint64_t visit(std::span<const Segment> segments, std::uint64_t first, std::uint64_t max_rows,
                             const std::function<bool(const ResultRow&)>& visit);

 private:
  struct Entry;
  static std::uint64_t memory_of(const Chunk& chunk);
  // The entry into whose chunk append() copies `size` bytes; null: it begins a new chunk.
  Entry* tail_with_room(std::size_t size);
  void drop_spare();

  struct Entry {
    std::shared_ptr<Chunk> chunk;
    std::uint64_t first_row;
    std::uint64_t rows;
    std::size_t size_bytes;
    std::uint64_t bytes_before;
    bool has_others;
  };
  std::vector<Entry> entries_;  // by first_row; the first dropped_ of them are empty
  std::size_t dropped_ = 0;
  std::shared_ptr<Chunk> spare_;  // from reserve() to append(); its bytes count. Null: none
  std::uint64_t first_row_ = 0;
  std::uint64_t rows_ = 0;
  std::uint64_t memory_bytes_ = 0;
  std::uint64_t appended_bytes_ = 0;
  std::uint64_t discarded_ = 0;
  std::uint64_t discarded_bytes_ = 0;
};

}  // namespace locksley

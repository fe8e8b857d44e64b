// What the ended jobs of a batch left: an append-only log in the order of completion, read by cursor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/job.h"

namespace locksley {

// One row: the job's index, how it ended, and its output or the text of its error. `output` does not outlive
// the visit in which it is seen.
struct ResultRow {
  std::uint64_t index;
  JobStatus status;
  std::string_view output;
};

// How a row lies in memory: this head, then `length` bytes of output, padded so that the next head is
// aligned. Workers write rows in this form, so that publishing is one copy of bytes and no work a row.
struct ResultHead {
  std::uint64_t index;
  std::uint32_t length;
  JobStatus status;
  std::uint8_t unused[3];

  static constexpr std::size_t bytes_of(std::size_t length) {
    return (sizeof(ResultHead) + length + alignof(ResultHead) - 1) & ~(alignof(ResultHead) - 1);
  }
};
static_assert(sizeof(ResultHead) == 16);

// The log; its older rows may lie elsewhere. Owned by its batch, which guards append and snapshot with its
// own mutex; what a snapshot shows is immutable and may be read by any thread, without the mutex, for as long
// as the snapshot is held. Memory: the rows themselves, in chunks that grow from 512 bytes to 256 KiB, plus
// 40 bytes a chunk.
class ResultLog {
 public:
  struct Chunk {
    std::unique_ptr<std::byte[]> bytes;  // rows; null for a run of cancelled jobs
    std::size_t capacity = 0;
    JobStatus run_status =
        JobStatus::cancelled;  // of a run: jobs run_first, run_first + 1, … without own rows
    std::uint64_t run_first = 0;
    std::string run_reason;
  };
  // A stretch of rows in one chunk.
  struct Piece {
    std::shared_ptr<const Chunk> chunk;
    std::uint64_t first_row;  // its place in the log
    std::uint64_t rows;
    std::size_t size_bytes;  // used bytes of the chunk
  };

  // Rows that were appended together: what a journal keeps of them.
  struct Slice {
    std::shared_ptr<const Chunk> chunk;  // null: no rows
    std::size_t offset = 0;              // of the first row in the chunk's bytes
    std::size_t size_bytes = 0;
    std::uint64_t first_row = 0;  // its place in the log
    std::uint64_t rows = 0;
  };

  // Rows ready to be linked in: built outside the batch's mutex when there are many bytes.
  struct Prepared {
    std::shared_ptr<Chunk> chunk;  // null: the bytes are few and are copied by append()
    std::span<const std::byte> bytes;
    std::uint64_t rows = 0;
  };
  static Prepared prepare(std::span<const std::byte> bytes, std::uint64_t rows);

  // [needs the batch's mutex] Appends rows in the form of ResultHead.
  Slice append(Prepared prepared);
  // [needs the batch's mutex] Appends `count` rows for jobs that never ran, in constant memory.
  Slice append_run(std::uint64_t first_index, std::uint64_t count, JobStatus status, std::string reason);
  // [needs the batch's mutex] The pieces that hold rows `first` to `first + max_rows`, at most; first >=
  // first_row().
  std::vector<Piece> snapshot(std::uint64_t first, std::uint64_t max_rows) const;

  // [needs the batch's mutex] An empty log becomes one whose first `rows` rows are not in memory.
  void begin_at(std::uint64_t rows, std::uint64_t bytes) {
    first_row_ = rows_ = rows;
    appended_bytes_ = bytes;
  }
  // [needs the batch's mutex] Forgets rows below `row`, as far as no other row shares their chunk.
  void drop_before(std::uint64_t row);

  std::uint64_t rows() const { return rows_; }
  // Rows below this one are not in memory.
  std::uint64_t first_row() const { return first_row_; }
  std::uint64_t memory_bytes() const { return memory_bytes_; }
  // Bytes of all rows that were ever appended, as a compact form has them: their outputs, and a few more.
  std::uint64_t appended_bytes() const { return appended_bytes_; }

  // Visits rows [first, first + max_rows) of `pieces` in order until `visit` returns false, which then has
  // not consumed that row. Returns the number of rows consumed.
  static std::uint64_t visit(std::span<const Piece> pieces, std::uint64_t first, std::uint64_t max_rows,
                             const std::function<bool(const ResultRow&)>& visit);

 private:
  struct Entry {
    std::shared_ptr<Chunk> chunk;
    std::uint64_t first_row;
    std::uint64_t rows;
    std::size_t size_bytes;
  };
  std::vector<Entry> entries_;  // by first_row; the first dropped_ of them are empty
  std::size_t dropped_ = 0;
  std::uint64_t first_row_ = 0;
  std::uint64_t rows_ = 0;
  std::uint64_t memory_bytes_ = 0;
  std::uint64_t appended_bytes_ = 0;
};

}  // namespace locksley

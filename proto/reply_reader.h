// The parser of a client: received bytes to replies, as trees or, for RESULTS, row by row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "proto/command_reader.h"
#include "proto/reply.h"

namespace locksley::proto {

// Limits of what a peer may send. The defaults bound single strings, counts and levels, but not the
// memory of a whole reply. Only max_reply_bytes bounds that, for next().
struct ReplyLimits {
  std::size_t max_bulk_bytes = 512 * Limits::kMiB;
  std::size_t max_elements = 2147483647;  // of one aggregate
  std::size_t max_depth = 32;             // Locksley's replies have at most 5 levels (COMMAND DOCS)
  // Bytes of a whole reply, with its heads, its line ends and the attributes before it.
  std::size_t max_reply_bytes = std::numeric_limits<std::size_t>::max();
};

// The content of a RESULTS reply without its rows.
struct ResultsReply {
  bool is_error = false;
  std::string error;         // is_error: the error reply's text
  std::uint64_t cursor = 0;  // of the next rows; 0: the end
  std::uint64_t rows = 0;    // rows delivered
};

// Turns received bytes into replies: RESP2 and RESP3, incrementally. The part of a reply that was
// parsed is not parsed again when more bytes arrive.
//
//   auto space = reader.prepare();  n = read(fd, space);  reader.commit(n);
//   while ((status = reader.next(reply)) == ReadStatus::kComplete) use(reply);
//
// Owned by one connection and used by one thread at a time. Nothing blocks; no I/O. Invalid input
// ends in kError, with error_message(); a failed allocation is std::bad_alloc. Memory: the reply
// under construction, and a buffer that grows with the bytes that have arrived. ReplyLimits bound
// both, if next() is called until it needs more after each commit().
//
// Attributes (`|`) are read and ignored. Streamed aggregates (`*?`) are refused: no server sends
// them without being asked.
class ReplyReader {
 public:
  static constexpr std::size_t kMinimumRead = 16 * Limits::kKiB;

  explicit ReplyReader(const ReplyLimits& limits = {}) : limits_(limits) {}
  ReplyReader(const ReplyReader&) = delete;
  ReplyReader& operator=(const ReplyReader&) = delete;

  // Space to receive into, at least `min` bytes. Valid until the next call of any member that is
  // not const.
  std::span<std::byte> prepare(std::size_t min = kMinimumRead);
  void commit(std::size_t n) { written_ += n; }

  // The next reply. A push is a reply of type kPush; only the caller knows to which command it
  // belongs.
  ReadStatus next(Reply& reply);

  // The next reply, which must be that of RESULTS: calls visit(index, status, output) for each row
  // as soon as it is whole, without building a tree, and returns kComplete at the end of the reply.
  // The views are valid only during the call of `visit`. After kNeedMore call next_results() again,
  // with the same `results`. An error reply is kComplete with is_error set; a reply of another
  // shape is kError.
  template <typename RowVisitor>
  ReadStatus next_results(ResultsReply& results, RowVisitor&& visit);

  const std::string& error_message() const { return error_; }
  std::size_t buffered_bytes() const { return written_ - read_; }
  std::size_t memory_bytes() const { return capacity_; }

 private:
  // An aggregate of which elements are missing.
  struct Frame {
    Reply value;
    std::size_t missing;
    bool is_attribute;
  };
  struct Row {
    std::uint64_t index;
    std::string_view status;
    std::string_view output;
  };
  // The result of read_value(): a whole value, or the head of an aggregate that lacks `missing`
  // elements.
  struct Found {
    Reply value;
    std::size_t missing = 0;
    bool is_attribute = false;
  };

  ReadStatus fail(std::string_view what);
  ReadStatus read_value(Found& found);
  // The two longer cases of read_value(), by the type of the value; they move `at` to the end of
  // the bytes read.
  ReadStatus read_string(const char*& at, char type, Reply& value);  // $ = !
  ReadStatus read_aggregate_head(const char*& at, char type, Found& found);
  bool absorb(Reply& value, bool is_attribute);
  // Whether the reply under construction may have so many bytes more.
  bool has_room(std::size_t bytes) const { return bytes <= limits_.max_reply_bytes - reply_bytes_; }
  ReadStatus fail_of_size();
  // Reads a value of one line; false if it is invalid.
  static bool read_line_value(char type, std::string_view line, Reply& value);
  ReadStatus begin_results(ResultsReply& results);
  ReadStatus read_row(Row& row);
  // Reads the row at `at` and returns its end, if the row is whole, its job is ok, and its numbers
  // are short: as nearly all rows are. Null: it is another kind of row, an incomplete one, or no
  // row.
  const char* try_ok_row(const char* at, Row& row) const;
  // Each reads one element at `at`, and moves `at` to its end if the element is whole.
  ReadStatus read_line(const char*& at, std::string_view& line);
  ReadStatus read_number(const char*& at, char type, std::int64_t& number);
  ReadStatus read_bulk(const char*& at, std::string_view& bytes);
  ReadStatus read_bulk_body(const char*& at, std::int64_t length, std::string_view& bytes);

  const char* begin() const { return buffer_.get() + read_; }
  const char* end() const { return buffer_.get() + written_; }

  const ReplyLimits limits_;
  std::unique_ptr<char[]> buffer_;
  std::size_t capacity_ = 0;
  std::size_t read_ = 0;
  std::size_t written_ = 0;
  std::size_t wanted_ = 0;  // bytes from read_ on that the next step needs; 0: not known
  std::vector<Frame> stack_;
  std::size_t reply_bytes_ = 0;  // of the reply under construction that have been parsed
  bool is_in_rows_ = false;
  std::uint64_t rows_missing_ = 0;
  std::string error_;
};

template <typename RowVisitor>
ReadStatus ReplyReader::next_results(ResultsReply& results, RowVisitor&& visit) {
  if (!is_in_rows_) {
    results = ResultsReply{};
    const ReadStatus status = begin_results(results);
    if (status != ReadStatus::kComplete || results.is_error) return status;
    is_in_rows_ = true;
  }
  Row row;
  while (rows_missing_ > 0) {
    const ReadStatus status = read_row(row);
    if (status != ReadStatus::kComplete) return status;
    --rows_missing_;
    ++results.rows;
    visit(row.index, row.status, row.output);
  }
  is_in_rows_ = false;
  return ReadStatus::kComplete;
}

}  // namespace locksley::proto

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "proto/command_reader.h"
#include "proto/reply.h"

namespace locksley::proto {

// What a server may make a client hold.
struct ReplyLimits {
  std::size_t max_bulk_bytes = 512 * Limits::kMiB;
  std::size_t max_elements = 2147483647;  // of one aggregate
  std::size_t max_depth = 32;             // Locksley's replies have at most 5 levels (COMMAND DOCS)
};

// What a RESULTS reply says beside its rows.
struct ResultsReply {
  bool is_error = false;
  std::string error;         // is_error: the error reply's text
  std::uint64_t cursor = 0;  // where to go on; 0: the end
  std::uint64_t rows = 0;    // rows delivered
};

// Turns received bytes into replies: RESP2 and RESP3, incrementally; a reply that came in part is never
// parsed anew.
//
//   auto space = reader.prepare();  n = read(fd, space);  reader.commit(n);
//   while ((status = reader.next(reply)) == ReadStatus::kComplete) use(reply);
//
// Owned by one connection and used by one thread at a time. Nothing blocks; no I/O. What the server sends can
// only end in kError, with error_message(); allocation failure is std::bad_alloc. Memory: the reply under
// construction and a buffer that grows with what has really arrived.
//
// Attributes (`|`) are read and dropped. Streamed aggregates (`*?`) are refused: no server sends them
// unasked.
class ReplyReader {
 public:
  static constexpr std::size_t kMinimumRead = 16 * Limits::kKiB;

  explicit ReplyReader(const ReplyLimits& limits = {}) : limits_(limits) {}
  ReplyReader(const ReplyReader&) = delete;
  ReplyReader& operator=(const ReplyReader&) = delete;

  // Space to receive into, at least `min` bytes. Valid until the next call of any member that is not const.
  std::span<std::byte> prepare(std::size_t min = kMinimumRead);
  void commit(std::size_t n) { written_ += n; }

  // The next reply. Pushes come as replies of type kPush; it is the caller who knows what they belong to.
  ReadStatus next(Reply& reply);

  // The next reply, which is to be that of RESULTS: calls visit(index, status, output) for each row as soon
  // as it is whole, without building a tree, and returns kComplete when the reply ends. The views are valid
  // during the call of `row` alone. After kNeedMore it must be next_results() that goes on, with the same
  // `results`. An error reply is kComplete with is_error set; a reply of another shape is kError.
  template <typename RowVisitor>
  ReadStatus next_results(ResultsReply& results, RowVisitor&& visit);

  const std::string& error_message() const { return error_; }
  std::size_t buffered_bytes() const { return written_ - read_; }
  std::size_t memory_bytes() const { return capacity_; }

 private:
  // One aggregate whose elements are still coming.
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
  // What read_value() found: a whole value, or the head of an aggregate with `missing` elements to come.
  struct Found {
    Reply value;
    std::size_t missing = 0;
    bool is_attribute = false;
  };

  ReadStatus fail(std::string_view what);
  ReadStatus read_value(Found& found);
  bool absorb(Reply& value, bool is_attribute);
  // A value of one line; false if it is none.
  static bool read_line_value(char type, std::string_view line, Reply& value);
  ReadStatus begin_results(ResultsReply& results);
  ReadStatus read_row(Row& row);
  // Each reads one element at `at`, which moves behind it if the element is whole.
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
  std::size_t wanted_ = 0;  // bytes from read_ on without which nothing can go on; 0: not known
  std::vector<Frame> stack_;
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

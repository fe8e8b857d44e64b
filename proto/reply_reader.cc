#include "proto/reply_reader.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <utility>

#include "proto/number.h"
#include "proto/text.h"

namespace locksley::proto {
namespace {

constexpr std::size_t kFirstBytes = 64 * Limits::kKiB;  // guess: a socket buffer
constexpr std::size_t kGrownBytes = Limits::kMiB;  // full reads alone do not make the buffer grow beyond this
constexpr std::size_t kMaxLineBytes = 64 * Limits::kKiB;

// Reads up to `most` digits, which end before the end of the bytes that have arrived; moves `at` to
// their end.
std::uint64_t read_digits(const char*& at, std::size_t most) {
  std::uint64_t value = 0;
  for (const char* const end = at + most; at != end; ++at) {
    const auto digit = static_cast<unsigned char>(*at - '0');
    if (digit > 9) break;
    value = value * 10 + digit;
  }
  return value;
}

}  // namespace

std::span<std::byte> ReplyReader::prepare(std::size_t min) {
  min = std::max<std::size_t>(min, 1);
  const std::size_t unread = written_ - read_;
  const bool was_filled = unread == 0 && written_ == capacity_ && capacity_ < kGrownBytes;
  if (unread == 0) {
    read_ = 0;
    written_ = 0;
  }
  if (was_filled || capacity_ - written_ < min) {
    // If the unread bytes fill at most half of the buffer, they move to its front; otherwise the
    // buffer doubles. Either way a byte is moved a bounded number of times.
    const bool grows = was_filled || unread + min > capacity_ / 2;
    if (grows) {
      const std::size_t capacity = std::max({kFirstBytes, 2 * capacity_, unread + min});
      auto grown = std::make_unique_for_overwrite<char[]>(capacity);
      if (unread > 0) std::memcpy(grown.get(), begin(), unread);
      buffer_ = std::move(grown);
      capacity_ = capacity;
    } else if (unread > 0) {
      std::memmove(buffer_.get(), begin(), unread);
    }
    read_ = 0;
    written_ = unread;
  }
  return std::as_writable_bytes(std::span(buffer_.get() + written_, capacity_ - written_));
}

ReadStatus ReplyReader::fail(std::string_view what) {
  error_ = "broken reply: ";
  error_ += what;
  return ReadStatus::kError;
}

ReadStatus ReplyReader::next(Reply& reply) {
  if (!error_.empty()) return ReadStatus::kError;
  while (true) {
    Found found;
    if (const ReadStatus status = read_value(found); status != ReadStatus::kComplete) return status;
    if (found.missing > 0) {
      if (stack_.size() >= limits_.max_depth) return fail("nested too deeply");
      stack_.push_back({std::move(found.value), found.missing, found.is_attribute});
      continue;
    }
    if (!absorb(found.value, found.is_attribute)) {
      reply = std::move(found.value);
      reply_bytes_ = 0;
      return ReadStatus::kComplete;
    }
  }
}

// Adds a whole value to the aggregate that contains it. This may complete the aggregate, which is
// then added to its own, and so on. False if no aggregate contains the value: then `value` is the
// reply.
bool ReplyReader::absorb(Reply& value, bool is_attribute) {
  while (!is_attribute && !stack_.empty()) {
    Frame& frame = stack_.back();
    frame.value.elements.push_back(std::move(value));
    if (--frame.missing > 0) return true;
    value = std::move(frame.value);
    is_attribute = frame.is_attribute;
    stack_.pop_back();
  }
  return is_attribute;
}

// A line without its line end. `at` is the position after the type. The line ends at the first CR
// or LF, so that the result does not depend on how many bytes after it have arrived.
ReadStatus ReplyReader::read_line(const char*& at, std::string_view& line) {
  const auto available = static_cast<std::size_t>(end() - at);
  const auto* lf = static_cast<const char*>(std::memchr(at, '\n', available));
  const std::size_t before_lf = lf == nullptr ? available : static_cast<std::size_t>(lf - at);
  const auto* cr = static_cast<const char*>(std::memchr(at, '\r', before_lf));
  const std::size_t length = cr == nullptr ? before_lf : static_cast<std::size_t>(cr - at);
  if (length > kMaxLineBytes) return fail("a line of more than 64 KiB");
  if (cr == nullptr) return lf == nullptr ? ReadStatus::kNeedMore : fail("LF without CR");
  if (cr + 1 == end()) return ReadStatus::kNeedMore;
  if (cr + 1 != lf) return fail("CR without LF");
  line = {at, length};
  at = cr + 2;
  return ReadStatus::kComplete;
}

ReadStatus ReplyReader::read_number(const char*& at, char type, std::int64_t& number) {
  const char* p = at;
  const char* const stop = end();
  if (p == stop) return ReadStatus::kNeedMore;
  if (*p != type) return fail(std::string("expected '") + type + "', got '" + printable({p, 1}) + '\'');
  ++p;
  constexpr int kMaxFastDigits = 18;
  std::int64_t value = 0;
  const char* const digits = p;
  while (p != stop && *p >= '0' && *p <= '9' && p - digits < kMaxFastDigits)
    value = value * 10 + (*p++ - '0');
  if (stop - p >= 2 && p != digits && p[0] == '\r' && p[1] == '\n') {
    number = value;
    at = p + 2;
    return ReadStatus::kComplete;
  }
  p = at + 1;
  std::string_view line;
  if (const ReadStatus status = read_line(p, line); status != ReadStatus::kComplete) return status;
  const auto parsed = parse_int64(line);
  if (!parsed) return fail("'" + printable(line, 40) + "' is not an integer");
  number = *parsed;
  at = p;
  return ReadStatus::kComplete;
}

ReadStatus ReplyReader::read_bulk_body(const char*& at, std::int64_t length, std::string_view& bytes) {
  if (length < 0 || static_cast<std::uint64_t>(length) > limits_.max_bulk_bytes) {
    return fail("a string of " + std::to_string(length) + " bytes");
  }
  const auto size = static_cast<std::size_t>(length);
  if (static_cast<std::size_t>(end() - at) < size + 2) {
    wanted_ = static_cast<std::size_t>(at - begin()) + size + 2;
    return ReadStatus::kNeedMore;
  }
  if (at[size] != '\r' || at[size + 1] != '\n') return fail("a string does not end where its length says");
  bytes = {at, size};
  at += size + 2;
  return ReadStatus::kComplete;
}

ReadStatus ReplyReader::read_bulk(const char*& at, std::string_view& bytes) {
  const char* p = at;
  std::int64_t length = 0;
  if (const ReadStatus status = read_number(p, '$', length); status != ReadStatus::kComplete) return status;
  if (const ReadStatus status = read_bulk_body(p, length, bytes); status != ReadStatus::kComplete)
    return status;
  at = p;
  return ReadStatus::kComplete;
}

ReadStatus ReplyReader::read_value(Found& found) {
  if (written_ - read_ < std::max<std::size_t>(wanted_, 1)) return ReadStatus::kNeedMore;
  wanted_ = 0;
  const char* at = begin();
  const char type = *at;
  Reply& value = found.value;
  ReadStatus status = ReadStatus::kComplete;
  switch (type) {
    case ':':
      value.type = Reply::Type::kInteger;
      status = read_number(at, type, value.integer);
      break;
    case '$':
    case '=':
    case '!':
      status = read_string(at, type, value);
      break;
    case '*':
    case '~':
    case '>':
    case '%':
    case '|':
      status = read_aggregate_head(at, type, found);
      break;
    default: {
      // Reported at the first byte: a peer that speaks another protocol may send no line end for
      // long.
      if (std::string_view("+-(_#,").find(type) == std::string_view::npos) {
        return fail("unexpected '" + printable({&type, 1}) + "'");
      }
      ++at;
      std::string_view line;
      status = read_line(at, line);
      if (status != ReadStatus::kComplete) break;
      if (!read_line_value(type, line, value)) {
        return fail("unexpected '" + printable({&type, 1}) + printable(line, 40) + "'");
      }
    }
  }
  if (status != ReadStatus::kComplete) return status;
  const auto size = static_cast<std::size_t>(at - begin());
  if (!has_room(size)) return fail_of_size();
  reply_bytes_ += size;
  read_ += size;
  return status;
}

ReadStatus ReplyReader::fail_of_size() {
  return fail("more than " + std::to_string(limits_.max_reply_bytes) + " bytes");
}

ReadStatus ReplyReader::read_string(const char*& at, char type, Reply& value) {
  std::int64_t length = 0;
  std::string_view bytes;
  ReadStatus status = read_number(at, type, length);
  if (status != ReadStatus::kComplete || (type == '$' && length == -1)) return status;
  // Checked before the bytes have arrived.
  const bool is_allowed = length >= 0 && static_cast<std::uint64_t>(length) <= limits_.max_bulk_bytes;
  if (is_allowed && !has_room(static_cast<std::size_t>(length))) return fail_of_size();
  status = read_bulk_body(at, length, bytes);
  if (status != ReadStatus::kComplete) return status;
  value.type = type == '$' ? Reply::Type::kBulk : type == '=' ? Reply::Type::kVerbatim : Reply::Type::kError;
  if (type == '=') {
    if (bytes.size() < 4 || bytes[3] != ':') return fail("a verbatim string without its kind");
    bytes.remove_prefix(4);
  }
  value.text = bytes;
  return status;
}

ReadStatus ReplyReader::read_aggregate_head(const char*& at, char type, Found& found) {
  std::int64_t count = 0;
  const ReadStatus status = read_number(at, type, count);
  if (status != ReadStatus::kComplete || (type == '*' && count == -1)) return status;
  if (count < 0 || static_cast<std::uint64_t>(count) > limits_.max_elements) {
    return fail("an aggregate of " + std::to_string(count) + " elements");
  }
  const bool is_paired = type == '%' || type == '|';
  found.value.type = is_paired ? Reply::Type::kMap : type == '>' ? Reply::Type::kPush : Reply::Type::kArray;
  found.missing = static_cast<std::size_t>(count) * (is_paired ? 2 : 1);
  found.is_attribute = type == '|';
  return status;
}

bool ReplyReader::read_line_value(char type, std::string_view line, Reply& value) {
  switch (type) {
    case '+':
      value.type = Reply::Type::kSimple;
      value.text = line;
      return true;
    case '-':
      value.type = Reply::Type::kError;
      value.text = line;
      return true;
    case '(':
      value.type = Reply::Type::kBigNumber;
      value.text = line;
      return true;
    case '_':
      return line.empty();
    case '#':
      value.type = Reply::Type::kBoolean;
      value.integer = line == "t" ? 1 : 0;
      return line == "t" || line == "f";
    case ',': {
      value.type = Reply::Type::kDouble;
      const auto [stop, error] = std::from_chars(line.data(), line.data() + line.size(), value.real);
      return error == std::errc() && stop == line.data() + line.size();
    }
    default:
      return false;
  }
}

ReadStatus ReplyReader::begin_results(ResultsReply& results) {
  if (!error_.empty()) return ReadStatus::kError;
  wanted_ = 0;
  if (read_ == written_) return ReadStatus::kNeedMore;
  const char* at = begin();
  if (*at == '-') {
    ++at;
    std::string_view line;
    if (const ReadStatus status = read_line(at, line); status != ReadStatus::kComplete) return status;
    results.is_error = true;
    results.error = line;
    read_ = static_cast<std::size_t>(at - buffer_.get());
    return ReadStatus::kComplete;
  }
  std::int64_t parts = 0;
  std::int64_t rows = 0;
  if (const ReadStatus status = read_number(at, '*', parts); status != ReadStatus::kComplete) return status;
  if (parts != 2) return fail("RESULTS answers two elements, not " + std::to_string(parts));
  // Like SCAN, RESULTS replies with the cursor as a string of digits.
  std::string_view digits;
  if (const ReadStatus status = read_bulk(at, digits); status != ReadStatus::kComplete) return status;
  const auto cursor = parse_uint64(digits);
  if (!cursor) return fail("a cursor of '" + printable(digits, 40) + "'");
  if (const ReadStatus status = read_number(at, '*', rows); status != ReadStatus::kComplete) return status;
  if (rows < 0 || static_cast<std::uint64_t>(rows) > limits_.max_elements) {
    return fail("an aggregate of " + std::to_string(rows) + " elements");
  }
  results.cursor = *cursor;
  rows_missing_ = static_cast<std::uint64_t>(rows);
  read_ = static_cast<std::size_t>(at - buffer_.get());
  return ReadStatus::kComplete;
}

ReadStatus ReplyReader::read_row(Row& row) {
  if (written_ - read_ < std::max<std::size_t>(wanted_, 1)) return ReadStatus::kNeedMore;
  wanted_ = 0;
  const char* at = begin();
  if (const char* const after = try_ok_row(at, row)) {
    read_ = static_cast<std::size_t>(after - buffer_.get());
    return ReadStatus::kComplete;
  }
  std::int64_t parts = 0;
  std::int64_t index = 0;
  if (const ReadStatus status = read_number(at, '*', parts); status != ReadStatus::kComplete) return status;
  if (parts != 3) return fail("a row of RESULTS has three elements, not " + std::to_string(parts));
  if (const ReadStatus status = read_number(at, ':', index); status != ReadStatus::kComplete) return status;
  if (const ReadStatus status = read_bulk(at, row.status); status != ReadStatus::kComplete) return status;
  if (const ReadStatus status = read_bulk(at, row.output); status != ReadStatus::kComplete) return status;
  row.index = static_cast<std::uint64_t>(index);
  read_ = static_cast<std::size_t>(at - buffer_.get());
  return ReadStatus::kComplete;
}

const char* ReplyReader::try_ok_row(const char* at, Row& row) const {
  constexpr std::string_view kStart = "*3\r\n:";
  constexpr std::string_view kOk = "\r\n$2\r\nok\r\n$";
  constexpr std::size_t kMostDigits = 10;
  // If so many bytes have arrived, everything before the output has arrived.
  constexpr std::size_t kLongestHead = kStart.size() + kMostDigits + kOk.size() + kMostDigits + 2;
  if (static_cast<std::size_t>(end() - at) < kLongestHead) return nullptr;
  if (std::memcmp(at, kStart.data(), kStart.size()) != 0) return nullptr;
  at += kStart.size();
  const char* const index = at;
  row.index = read_digits(at, kMostDigits);
  if (at == index || std::memcmp(at, kOk.data(), kOk.size()) != 0) return nullptr;
  at += kOk.size();
  row.status = {at - 5, 2};
  const char* const length = at;
  const std::uint64_t size = read_digits(at, kMostDigits);
  if (at == length || at[0] != '\r' || at[1] != '\n' || size > limits_.max_bulk_bytes) return nullptr;
  at += 2;
  if (static_cast<std::size_t>(end() - at) < size + 2 || at[size] != '\r' || at[size + 1] != '\n')
    return nullptr;
  row.output = {at, static_cast<std::size_t>(size)};
  return at + size + 2;
}

}  // namespace locksley::proto

#include "daemon/upstream/replies/reply_scanner.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "daemon/upstream/replies/short_bulk.h"

namespace locksley::daemon {

std::span<char> ReplyScanner::prepare() {
  const std::size_t kept = written_ - begin_;
  const std::size_t needed = std::max(kept + kLeastSpace, wanted_ > begin_ ? wanted_ - begin_ : 0);
  const bool is_too_large = capacity_ > kIdleBytes && kept == 0 && needed <= kIdleBytes;
  if (written_ + kLeastSpace > capacity_ || needed > capacity_ - begin_ || is_too_large) {
    if (needed > capacity_ || is_too_large) {
      // Memory for a large reply is allocated as its bytes arrive, doubling each time.
      const std::size_t grown = std::min(needed, std::max(2 * capacity_, 2 * kLeastSpace));
      const std::size_t capacity = std::max(kept + kLeastSpace, is_too_large ? 2 * kLeastSpace : grown);
      auto larger = std::make_unique_for_overwrite<char[]>(capacity);
      if (kept != 0) std::memcpy(larger.get(), buffer_.get() + begin_, kept);
      buffer_ = std::move(larger);
      capacity_ = capacity;
    } else if (kept != 0) {
      std::memmove(buffer_.get(), buffer_.get() + begin_, kept);
    }
    at_ -= begin_;
    if (wanted_ != 0) wanted_ -= begin_;
    written_ = kept;
    begin_ = 0;
  }
  return {buffer_.get() + written_, capacity_ - written_};
}

void ReplyScanner::clear() {
  buffer_.reset();
  capacity_ = 0;
  begin_ = at_ = written_ = wanted_ = 0;
  missing_.clear();
  is_invalid_ = false;
}

ReplyScanner::Status ReplyScanner::next(std::string_view& reply) {
  if (is_invalid_) return Status::kInvalid;
  for (;;) {
    if (!missing_.empty()) pass_short_bulks();
    const Status status = scan_element();
    if (status == Status::kInvalid || written_ - begin_ > kMostBytes) {
      is_invalid_ = true;
      return Status::kInvalid;
    }
    if (status == Status::kNeedMore) return status;
    if (!close_aggregates()) continue;
    reply = {buffer_.get() + begin_, at_ - begin_};
    begin_ = at_;
    return Status::kWhole;
  }
}

// True: the reply is whole.
bool ReplyScanner::close_aggregates() {
  while (!missing_.empty()) {
    if (missing_.back() != 0) {
      --missing_.back();
      return false;
    }
    missing_.pop_back();
  }
  return true;
}

// The payloads of a lease, without the steps that elements of other kinds need. scan_element()
// finds the errors.
void ReplyScanner::pass_short_bulks() {
  const char* from = buffer_.get() + at_;
  const char* const end = buffer_.get() + written_;
  std::uint64_t left = missing_.back();
  for (; left != 0; --left) {
    const ShortBulk bulk = read_short_bulk({from, end});
    const std::size_t size = std::size_t{bulk.header} + bulk.length + 2;
    if (bulk.header == 0 || static_cast<std::size_t>(end - from) < size) break;
    if (from[size - 2] != '\r' || from[size - 1] != '\n') break;
    from += size;
  }
  if (left == missing_.back()) return;
  missing_.back() = left;
  at_ = static_cast<std::size_t>(from - buffer_.get());
  wanted_ = 0;
}

ReplyScanner::Status ReplyScanner::scan_element() {
  if (written_ < wanted_ || at_ == written_) return Status::kNeedMore;
  wanted_ = 0;
  const char* const from = buffer_.get() + at_;
  if (const ShortBulk bulk = read_short_bulk({from, written_ - at_}); bulk.header != 0) {
    return scan_header('$', bulk.length, at_ + bulk.header);
  }
  const auto* const end = static_cast<const char*>(std::memchr(from, '\n', written_ - at_));
  if (end == nullptr) return written_ - at_ > kMostLine ? Status::kInvalid : Status::kNeedMore;
  if (end - from < 2 || end[-1] != '\r') return Status::kInvalid;
  const std::size_t after = at_ + static_cast<std::size_t>(end - from) + 1;
  switch (*from) {
    case '+':
    case '-':
    case ':':
    case '_':
    case '#':
    case ',':
    case '(':
      at_ = after;
      return Status::kWhole;
    default:
      break;
  }
  std::int64_t number = 0;
  const auto [stop, error] = std::from_chars(from + 1, end - 1, number);
  if (error != std::errc() || stop != end - 1 || number < -1) return Status::kInvalid;
  return scan_header(*from, number, after);
}

ReplyScanner::Status ReplyScanner::scan_header(char type, std::int64_t number, std::size_t after) {
  if (number > static_cast<std::int64_t>(kMostBytes)) return Status::kInvalid;
  if (number == -1 && type != '$' && type != '*') return Status::kInvalid;
  const std::size_t length = number < 0 ? 0 : static_cast<std::size_t>(number);
  switch (type) {
    case '$':
    case '=':
    case '!': {
      const std::size_t end = number < 0 ? after : after + length + 2;
      if (end > written_) {
        wanted_ = end;
        return Status::kNeedMore;
      }
      if (number >= 0 && std::memcmp(buffer_.get() + end - 2, "\r\n", 2) != 0) return Status::kInvalid;
      at_ = end;
      return Status::kWhole;
    }
    case '*':
    case '~':
    case '>':
    case '%':
      if (missing_.size() == kMostDepth) return Status::kInvalid;
      at_ = after;
      missing_.push_back(type == '%' ? 2 * length : length);
      return Status::kWhole;
    default:
      return Status::kInvalid;
  }
}

}  // namespace locksley::daemon

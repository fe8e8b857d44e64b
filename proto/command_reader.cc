#include "proto/command_reader.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "proto/text.h"

namespace locksley::proto {
namespace {

constexpr std::size_t kBlockGrowth = 4;
constexpr std::size_t kTerminatorBytes = 2;
// A bulk larger than this gets a block of its own size. Otherwise too many bytes at a block's end
// would stay unused.
constexpr std::size_t kOwnBlockBytes = CommandReader::kBlockBytes / 4;

// Returned in two registers: hence 32 bits for `bytes`.
struct Header {
  ReadStatus status;
  std::uint32_t bytes = 0;  // with its type byte and its line end
  std::int64_t value = 0;
};

// Reads "<type><number>\r\n"; the caller has checked the type. The first byte that cannot be right
// is an error. So a header has at most 18 digits, and the result does not depend on how the bytes
// were split.
Header parse_header(const char* begin, const char* end) {
  constexpr int kMaxDigits = 18;
  const char* p = begin + 1;
  if (p == end) return {ReadStatus::kNeedMore};
  const bool is_negative = *p == '-';
  if (is_negative && ++p == end) return {ReadStatus::kNeedMore};
  const char first = *p;
  if (first < (is_negative ? '1' : '0') || first > '9') return {ReadStatus::kError};
  std::int64_t value = first - '0';
  int digits = 1;
  for (++p; p != end && *p >= '0' && *p <= '9'; ++p) {
    if (first == '0' || ++digits > kMaxDigits) return {ReadStatus::kError};
    value = value * 10 + (*p - '0');
  }
  if (p == end) return {ReadStatus::kNeedMore};
  if (*p != '\r') return {ReadStatus::kError};
  if (++p == end) return {ReadStatus::kNeedMore};
  if (*p != '\n') return {ReadStatus::kError};
  return {ReadStatus::kComplete, static_cast<std::uint32_t>(p + 1 - begin), is_negative ? -value : value};
}

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = to_lower(c);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

// The byte that a backslash and this character stand for in double quotes.
char unescape(char c) {
  switch (c) {
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    case 'b':
      return '\b';
    case 'a':
      return '\a';
    default:
      return c;
  }
}

}  // namespace

CommandReader::CommandReader(const Limits& limits, BlockPool* pool) : limits_(limits), pool_(pool) {}

std::span<std::byte> CommandReader::prepare(std::size_t min) {
  min = std::max<std::size_t>(min, 1);
  const std::size_t unread = written_ - read_;
  if (!block_) {
    move_to_new_block(std::max(next_block_bytes_, min));
  } else if (unread == 0 && block_.is_unique()) {
    const bool is_too_small = written_ == block_->capacity() && block_->capacity() < largest_block();
    read_ = 0;
    written_ = 0;
    if (is_too_small || block_->capacity() < min) move_to_new_block(std::max(next_block_bytes_, min));
  }
  const std::size_t room = block_->capacity() - written_;
  if (state_ == State::kBulkBody) {
    const std::size_t wanted = bulk_bytes_ + kTerminatorBytes;
    const bool fits = read_ + wanted <= block_->capacity();
    const bool is_own_block_with_room = read_ == 0 && room > 0;
    if (!fits && !is_own_block_with_room) {
      std::size_t capacity = wanted + kMinimumRead;
      if (wanted > kOwnBlockBytes) {
        capacity = std::min(capacity, std::max(kBlockBytes, 4 * unread));
      } else {
        capacity = std::max(capacity, next_block_bytes_);
      }
      move_to_new_block(capacity);
    }
  } else if (room < min) {
    move_to_new_block(std::max(next_block_bytes_, unread + min));
  }
  return std::as_writable_bytes(std::span(block_->data() + written_, block_->capacity() - written_));
}

std::span<std::byte> CommandReader::prepare_for(std::size_t bytes) {
  if (!block_ && bytes <= kSmallBlockBytes) block_ = BlockRef::make(kSmallBlockBytes);
  return prepare(bytes);
}

void CommandReader::move_to_new_block(std::size_t capacity) {
  const std::size_t unread = written_ - read_;
  capacity = std::min(capacity, Block::kMaxCapacity);
  // Copying a large bulk string would take long; it is in a block of its own.
  if (read_ == 0 && unread > 0 && capacity > block_->capacity() && block_.try_grow(capacity)) return;
  BlockRef block = BlockRef::make(capacity, pool_);
  if (unread > 0) std::memcpy(block->data(), block_->data() + read_, unread);
  block_ = std::move(block);
  read_ = 0;
  written_ = unread;
  next_block_bytes_ = std::min(largest_block(), kBlockGrowth * next_block_bytes_);
}

void CommandReader::commit(std::size_t n) {
  const bool is_within = block_ && n <= block_->capacity() - written_;
  if (!is_within) std::abort();  // the caller has written beyond prepare()'s space
  if (state_ != State::kFailed) written_ += n;
}

ReadStatus CommandReader::next(Command& command) {
  command.arguments.clear();
  ReadStatus status = ReadStatus::kComplete;
  while (status == ReadStatus::kComplete) {
    switch (state_) {
      case State::kStart:
        if (read_ == written_) return ReadStatus::kNeedMore;
        line_scanned_ = 0;
        command_bytes_ = 0;
        state_ = block_->data()[read_] == '*' ? State::kMultibulk : State::kInline;
        break;
      case State::kMultibulk:
        status = parse_multibulk_header();
        break;
      case State::kInline:
        status = parse_inline();
        break;
      case State::kBulkHeader:
        status = parse_bulks();
        break;
      case State::kBulkBody:
        status = parse_bulk_body();
        break;
      case State::kWhole:
        finish(command);
        return ReadStatus::kComplete;
      case State::kFailed:
        return ReadStatus::kError;
    }
  }
  return status;
}

void CommandReader::finish(Command& command) {
  command.arguments.swap(pending_);
  command_bytes_ = 0;
  state_ = State::kStart;
  if (block_ && block_->capacity() > 2 * kBlockBytes) leave_block();
}

// The command's owner decides which thread frees its memory: the reader keeps no large block.
void CommandReader::leave_block() {
  if (read_ != written_)
    return move_to_new_block(std::max(next_block_bytes_, written_ - read_ + kMinimumRead));
  block_.reset();
  read_ = 0;
  written_ = 0;
}

ReadStatus CommandReader::fail(std::string_view what) {
  error_ = {ProtocolError::Kind::kProtocol, "ERR Protocol error: "};
  error_.message += what;
  state_ = State::kFailed;
  pending_ = ArgumentList();
  read_ = written_;
  command_bytes_ = 0;
  return ReadStatus::kError;
}

ReadStatus CommandReader::parse_multibulk_header() {
  const char* const data = block_->data();
  const Header header = parse_header(data + read_, data + written_);
  if (header.status == ReadStatus::kNeedMore) return ReadStatus::kNeedMore;
  const auto count = static_cast<std::size_t>(std::max<std::int64_t>(header.value, 0));
  if (header.status == ReadStatus::kError || count > limits_.max_arguments) {
    return fail("invalid multibulk length");
  }
  if (!limits_.authenticated && count > Limits::kUnauthenticatedArguments) {
    return fail("unauthenticated multibulk length");
  }
  advance(header.bytes);
  if (count == 0) {
    command_bytes_ = 0;
    state_ = State::kStart;
  } else {
    announced_ = count;
    state_ = State::kBulkHeader;
  }
  return ReadStatus::kComplete;
}

ReadStatus CommandReader::parse_bulks() {
  pending_.open_segment(block_);
  parse_short_bulks();
  if (pending_.size() != announced_) return parse_bulk_header();
  state_ = State::kWhole;
  return ReadStatus::kComplete;
}

ReadStatus CommandReader::parse_bulk_header() {
  const char* const data = block_->data();
  if (read_ == written_) return ReadStatus::kNeedMore;
  if (const char found = data[read_]; found != '$') {
    const char shown = found == '\r' || found == '\n' ? ' ' : found > 31 && found < 127 ? found : '?';
    return fail(std::string("expected '$', got '") + shown + '\'');
  }
  const Header header = parse_header(data + read_, data + written_);
  if (header.status == ReadStatus::kNeedMore) return ReadStatus::kNeedMore;
  if (header.status == ReadStatus::kError || header.value < 0) return fail("invalid bulk length");
  const auto length = static_cast<std::size_t>(header.value);
  constexpr std::size_t kMostInABlock = Block::kMaxCapacity - CommandReader::kMinimumRead - kTerminatorBytes;
  if (length > std::min(limits_.max_bulk_bytes, kMostInABlock)) return fail("invalid bulk length");
  if (!limits_.authenticated && length > Limits::kUnauthenticatedBulkBytes) {
    return fail("unauthenticated bulk length");
  }
  advance(header.bytes);
  if (command_bytes_ + length + kTerminatorBytes > limits_.max_command_bytes) {
    return fail("too big command: more than " + std::to_string(limits_.max_command_bytes) + " bytes");
  }
  bulk_bytes_ = length;
  state_ = State::kBulkBody;
  return ReadStatus::kComplete;
}

ReadStatus CommandReader::parse_bulk_body() {
  // As in Redis, the two bytes after a bulk are skipped unchecked: its length says where it ends.
  if (written_ - read_ < bulk_bytes_ + kTerminatorBytes) return ReadStatus::kNeedMore;
  pending_.open_segment(block_);
  pending_.append({static_cast<std::uint32_t>(read_), static_cast<std::uint32_t>(bulk_bytes_)}, announced_);
  advance(bulk_bytes_ + kTerminatorBytes);
  state_ = pending_.size() == announced_ ? State::kWhole : State::kBulkHeader;
  return ReadStatus::kComplete;
}

void CommandReader::parse_short_bulks() {
  constexpr std::size_t kLongest = 99;
  const bool is_bounded_otherwise =
      command_bytes_ + (written_ - read_) > limits_.max_command_bytes || limits_.max_bulk_bytes < kLongest;
  if (is_bounded_otherwise) return;  // the exact checks are made one by one

  const char* const base = block_->data();
  const char* const begin = base + read_;
  const char* const end = base + written_;
  const char* p = begin;
  // Locals, since the compiler cannot know that the writes to slices leave the members unchanged.
  const std::size_t announced = announced_;
  ArgumentList::Slice* slices = pending_.slices_.get();
  std::size_t capacity = pending_.capacity_;
  std::size_t count = pending_.end_;
  std::size_t payload = 0;
  while (count < announced && end - p >= 6) {  // "$0\r\n\r\n"
    const auto tens = static_cast<unsigned>(p[1] - '0');
    if (p[0] != '$' || tens > 9) break;
    const char* body = p + 4;
    unsigned length = tens;
    if (p[2] != '\r') {
      const auto ones = static_cast<unsigned>(p[2] - '0');
      if (ones > 9 || tens == 0 || p[3] != '\r') break;
      length = tens * 10 + ones;
      ++body;
    }
    if (body[-1] != '\n' || static_cast<std::size_t>(end - body) < length + kTerminatorBytes) break;
    if (count == capacity) {
      pending_.end_ = count;
      pending_.grow(announced);
      slices = pending_.slices_.get();
      capacity = pending_.capacity_;
    }
    slices[count++] = {static_cast<std::uint32_t>(body - base), length};
    payload += length;
    p = body + length + kTerminatorBytes;
  }
  pending_.end_ = count;
  pending_.payload_bytes_ += payload;
  constexpr std::size_t kMostOfTwoDigits = 99;  // what this loop reads
  if (payload != 0 && pending_.longest_bound_ < kMostOfTwoDigits) pending_.longest_bound_ = kMostOfTwoDigits;
  advance(static_cast<std::size_t>(p - begin));
}

ReadStatus CommandReader::parse_inline() {
  char* const line = block_->data() + read_;
  const std::size_t received = written_ - read_;
  const std::size_t looked_at = std::min(received, limits_.max_inline_bytes + 1);
  const auto* newline =
      static_cast<const char*>(std::memchr(line + line_scanned_, '\n', looked_at - line_scanned_));
  const std::size_t length = newline != nullptr ? static_cast<std::size_t>(newline - line) : looked_at;
  // Reported at once: a TLS client on the plain port would never send the end of a line.
  if (std::memchr(line + line_scanned_, '\0', length - line_scanned_) != nullptr) {
    return fail("unexpected NUL in inline request");
  }
  if (newline == nullptr) {
    if (received > limits_.max_inline_bytes) return fail("too big inline request");
    line_scanned_ = received;
    return ReadStatus::kNeedMore;
  }
  const bool ends_in_cr = length > 0 && line[length - 1] == '\r';
  const ReadStatus status = split_line(line, line + length - (ends_in_cr ? 1 : 0));
  if (status == ReadStatus::kError) return status;
  read_ += length + 1;
  state_ = pending_.empty() ? State::kStart : State::kWhole;
  return ReadStatus::kComplete;
}

// Decodes in place: the decoded text is never longer than its escapes.
ReadStatus CommandReader::split_line(char* line, char* end) {
  const char* in = line;
  char* out = line;
  pending_.open_segment(block_);
  while (true) {
    while (in != end && is_space(*in)) ++in;
    if (in == end) break;
    if (!limits_.authenticated && pending_.size() == Limits::kUnauthenticatedArguments) {
      return fail("unauthenticated multibulk length");
    }
    char* const argument = out;
    char quote = 0;
    for (; in != end && (quote != 0 || !is_space(*in)); ++in) {
      if (quote == 0) {
        if (*in == '"' || *in == '\'') {
          quote = *in;
        } else {
          *out++ = *in;
        }
      } else if (*in == quote) {
        if (in + 1 != end && !is_space(in[1])) return fail("unbalanced quotes in request");
        quote = 0;
      } else if (*in == '\\' && quote == '\'' && in + 1 != end && in[1] == '\'') {
        *out++ = *++in;
      } else if (*in == '\\' && quote == '"' && end - in > 3 && in[1] == 'x' && hex_digit(in[2]) >= 0 &&
                 hex_digit(in[3]) >= 0) {
        *out++ = static_cast<char>(hex_digit(in[2]) * 16 + hex_digit(in[3]));
        in += 3;
      } else if (*in == '\\' && quote == '"' && in + 1 != end) {
        *out++ = unescape(*++in);
      } else {
        *out++ = *in;
      }
    }
    if (quote != 0) return fail("unbalanced quotes in request");
    const auto offset = static_cast<std::uint32_t>(argument - block_->data());
    pending_.append({offset, static_cast<std::uint32_t>(out - argument)}, limits_.max_inline_bytes);
  }
  if (!pending_.empty() &&
      (equals_ignoring_case(pending_[0], "post") || equals_ignoring_case(pending_[0], "host:"))) {
    const std::string word(pending_[0]);
    fail("");
    error_ = {ProtocolError::Kind::kCrossProtocol,
              "ERR Protocol error: '" + word + "' looks like HTTP sent to this port"};
    return ReadStatus::kError;
  }
  return ReadStatus::kComplete;
}

void CommandReader::release() {
  if (!is_idle()) return;
  block_.reset();
  read_ = 0;
  written_ = 0;
  next_block_bytes_ = kFirstBlockBytes;
  pending_ = ArgumentList();
}

ArgumentList CommandReader::abandon() {
  if (block_) pending_.open_segment(block_);
  block_.reset();
  state_ = State::kFailed;
  return std::move(pending_);
}

std::size_t CommandReader::memory_bytes() const {
  std::size_t bytes = pending_.memory_bytes();
  const bool is_counted = !pending_.segments_.empty() && pending_.segments_.back().block == block_;
  if (block_ && !is_counted) bytes += block_->capacity();
  return bytes;
}

}  // namespace locksley::proto

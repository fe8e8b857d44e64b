#include "proto/command_writer.h"

#include <cstring>

#include "proto/decimal.h"

namespace locksley::proto {
namespace {

constexpr std::size_t kCommandLineBytes = 1 + kMaxDecimalBytes + 2;
constexpr std::size_t kOnePieceCommandBytes = 16 * 1024;

char* write_command_header(char* to, char type, std::size_t value) {
  *to++ = type;
  return write_line_end(write_decimal(to, value));
}

}  // namespace

void CommandWriter::begin(std::size_t arguments) {
  char* const begin = out_->reserve(kCommandLineBytes);
  out_->commit(static_cast<std::size_t>(write_command_header(begin, '*', arguments) - begin));
}

void CommandWriter::argument(std::string_view bytes) {
  const bool is_short = bytes.size() <= kOnePieceCommandBytes;
  char* const begin = out_->reserve(kCommandLineBytes + (is_short ? bytes.size() + 2 : 0));
  char* to = write_command_header(begin, '$', bytes.size());
  if (is_short) {
    if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
    to = write_line_end(to + bytes.size());
  }
  out_->commit(static_cast<std::size_t>(to - begin));
  if (!is_short) {
    out_->append(bytes);
    out_->append("\r\n");
  }
}

void CommandWriter::signed_argument(std::int64_t value) {
  char digits[kMaxDecimalBytes];
  argument(std::string_view(digits, static_cast<std::size_t>(write_decimal(digits, value) - digits)));
}

void CommandWriter::unsigned_argument(std::uint64_t value) {
  char digits[kMaxDecimalBytes];
  argument(std::string_view(digits, static_cast<std::size_t>(write_decimal(digits, value) - digits)));
}

}  // namespace locksley::proto

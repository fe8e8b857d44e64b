#include "proto/command_writer.h"

#include "proto/bulk.h"
#include "proto/decimal.h"

namespace locksley::proto {
namespace {

constexpr std::size_t kOnePieceCommandBytes = 16 * 1024;

}  // namespace

void CommandWriter::begin(std::size_t arguments) {
  char* const begin = out_->reserve(kMaxHeaderBytes);
  out_->commit(static_cast<std::size_t>(write_header(begin, '*', arguments) - begin));
}

void CommandWriter::argument(std::string_view bytes) {
  const bool is_short = bytes.size() <= kOnePieceCommandBytes;
  char* const begin = out_->reserve(is_short ? max_bulk_bytes(bytes.size()) : kMaxHeaderBytes);
  char* to = write_header(begin, '$', bytes.size());
  if (is_short) to = write_line(to, bytes);
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

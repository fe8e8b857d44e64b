#include "proto/reply_writer.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "proto/bulk.h"
#include "proto/decimal.h"

namespace locksley::proto {
namespace {

// Strings up to this go out in one piece with their header; longer ones may be split over two
// chunks.
constexpr std::size_t kOnePieceBytes = 16 * 1024;

// As write_decimal(), faster for numbers of up to eight digits. Writes up to kMaxDecimalBytes; only
// the bytes before the returned end are valid.
char* write_index(char* to, std::uint64_t value) {
  constexpr std::size_t kMost = 8;
  static_assert(kMost <= kMaxDecimalBytes);
  if (value >= 100'000'000) return write_decimal(to, value);
  // All eight digits at once, the first one in the lowest byte: halves of four digits, quarters of
  // two, and single digits, each in the lanes of one word. The divisions by 100 and by 10 are
  // products that are exact for these numbers.
  const std::uint64_t halves = value / 10'000 | (value % 10'000) << 32;
  const std::uint64_t hundreds = ((halves * 10'486) >> 20) & 0x7f'0000'007f;
  const std::uint64_t quarters = hundreds | (halves - 100 * hundreds) << 16;
  const std::uint64_t tens = ((quarters * 103) >> 10) & 0x000f'000f'000f'000f;
  const std::uint64_t digits = tens | (quarters - 10 * tens) << 8;
  const int zeros = std::min(std::countr_zero(digits) / 8, 7);  // leading; the last digit of 0 is written
  std::uint64_t text = (digits + 0x3030'3030'3030'3030) >> (8 * zeros);
  if constexpr (std::endian::native == std::endian::big) text = std::byteswap(text);
  std::memcpy(to, &text, kMost);
  return to + (kMost - static_cast<std::size_t>(zeros));
}

}  // namespace

void ReplyWriter::simple(std::string_view text) {
  out_->append("+");
  out_->append(text);
  out_->append("\r\n");
}

void ReplyWriter::error(std::string_view text) {
  text = text.substr(0, kMaxErrorBytes);
  char* const begin = out_->reserve(text.size() + 3);
  char* to = begin;
  *to++ = '-';
  to = std::transform(text.begin(), text.end(), to,
                      [](char c) { return (static_cast<unsigned char>(c) < 32 || c == 127) ? ' ' : c; });
  to = write_line_end(to);
  out_->commit(static_cast<std::size_t>(to - begin));
}

void ReplyWriter::integer(std::int64_t value) {
  char* const begin = out_->reserve(kMaxHeaderBytes);
  *begin = ':';
  out_->commit(static_cast<std::size_t>(write_line_end(write_decimal(begin + 1, value)) - begin));
}

void ReplyWriter::header(char type, std::uint64_t value) {
  char* const begin = out_->reserve(kMaxHeaderBytes);
  out_->commit(static_cast<std::size_t>(write_header(begin, type, value) - begin));
}

void ReplyWriter::bulk(std::string_view bytes) {
  if (bytes.size() > kOnePieceBytes) {
    header('$', bytes.size());
    out_->append_large(bytes);
    out_->append("\r\n");
    return;
  }
  char* const begin = out_->reserve(max_bulk_bytes(bytes.size()));
  out_->commit(static_cast<std::size_t>(write_bulk(begin, bytes) - begin));
}

void ReplyWriter::bulk_integer(std::int64_t value) {
  char digits[kMaxDecimalBytes];
  bulk({digits, static_cast<std::size_t>(write_decimal(digits, value) - digits)});
}

void ReplyWriter::null() { out_->append(protocol_ == Protocol::kResp3 ? "_\r\n" : "$-1\r\n"); }

void ReplyWriter::array(std::size_t n) { header('*', n); }

void ReplyWriter::map(std::size_t n) {
  if (protocol_ == Protocol::kResp3) {
    header('%', n);
  } else {
    header('*', 2 * n);
  }
}

void ReplyWriter::push(std::size_t n) { header(protocol_ == Protocol::kResp3 ? '>' : '*', n); }

void ReplyWriter::verbatim(std::string_view text) {
  if (protocol_ == Protocol::kResp2) {
    bulk(text);
    return;
  }
  header('=', text.size() + 4);
  out_->append("txt:");
  out_->append(text);
  out_->append("\r\n");
}

void ReplyWriter::real(double value) {
  constexpr std::size_t kMaxBytes = 32;  // the shortest decimal of a double has at most 24 bytes
  char digits[kMaxBytes];
  std::string_view text = value > 0 ? "inf" : "-inf";
  if (std::isnan(value)) {
    text = "nan";
  } else if (std::isfinite(value)) {
    text = {digits, static_cast<std::size_t>(std::to_chars(digits, digits + kMaxBytes, value).ptr - digits)};
  }
  if (protocol_ == Protocol::kResp2) {
    bulk(text);
    return;
  }
  out_->append(",");
  out_->append(text);
  out_->append("\r\n");
}

void ReplyWriter::result_row(std::uint64_t index, std::string_view status, std::string_view output) {
  constexpr std::string_view kStart = "*3\r\n:";
  const bool is_short = output.size() <= kOnePieceBytes;
  char* const begin = out_->reserve(kStart.size() + kMaxHeaderBytes + max_bulk_bytes(status.size()) +
                                    (is_short ? max_bulk_bytes(output.size()) : kMaxHeaderBytes));
  std::memcpy(begin, kStart.data(), kStart.size());
  char* to = write_line_end(write_index(begin + kStart.size(), index));
  constexpr std::string_view kOk = "$2\r\nok\r\n";  // nearly all
  if (status == "ok") {
    std::memcpy(to, kOk.data(), kOk.size());
    to += kOk.size();
  } else {
    to = write_bulk(to, status);
  }
  to = write_header(to, '$', output.size());
  if (is_short) to = write_line(to, output);
  out_->commit(static_cast<std::size_t>(to - begin));
  if (!is_short) {
    out_->append_large(output);
    out_->append("\r\n");
  }
}

}  // namespace locksley::proto

#include "proto/reply_writer.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "proto/bulk.h"
#include "proto/decimal.h"

namespace locksley::proto {
namespace {

// Strings up to this go out in one piece with their header; longer ones may be split over two chunks.
constexpr std::size_t kOnePieceBytes = 16 * 1024;

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
    out_->append(bytes);
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
  char* to = write_line_end(write_decimal(begin + kStart.size(), index));
  to = write_bulk(to, status);
  to = write_header(to, '$', output.size());
  if (is_short) to = write_line(to, output);
  out_->commit(static_cast<std::size_t>(to - begin));
  if (!is_short) {
    out_->append(output);
    out_->append("\r\n");
  }
}

}  // namespace locksley::proto

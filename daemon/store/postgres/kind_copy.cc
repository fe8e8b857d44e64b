#include "daemon/store/postgres/kind_copy.h"

#include <fmt/format.h>

#include <cstdint>
#include <utility>

#include "core/base/check.h"
#include "daemon/base/time.h"
#include "daemon/store/key.h"
#include "daemon/store/postgres/reading.h"
#include "daemon/store/postgres/row_place.h"

namespace locksley::daemon {
namespace {

// PostgreSQL's binary format of COPY: before the first row a signature of 11 bytes, flags, and the size of an extension, which
// is none; a row is the number of its columns, and the size and the bytes of each; the end is a number of -1 columns.
constexpr std::size_t kHeaderBytes = 19;
constexpr std::uint64_t kColumns = 3;

// Takes a number of so many bytes from the front.
std::uint64_t take_number(std::string_view& bytes, std::size_t size) {
  check(bytes.size() >= size, "a row of COPY is too short");
  const std::uint64_t number = key_number(bytes.substr(0, size));
  bytes.remove_prefix(size);
  return number;
}
std::string_view take_column(std::string_view& bytes) {
  const std::uint64_t size = take_number(bytes, sizeof(std::uint32_t));
  check(bytes.size() >= size, "a row of COPY is too short");
  const std::string_view column = bytes.substr(0, size);
  bytes.remove_prefix(size);
  return column;
}

}  // namespace

KindCopy::KindCopy(ConnectionPool& pool, char kind) : pool_(pool), kind_(static_cast<unsigned char>(kind)) {
  auto taken = pool.take();
  if (!is_done(taken)) return;
  connection_ = std::move(*taken);
  const std::string begin = fmt::format("{};{}", kBeginReading, lock_sql(Table::kIndex));
  if (!is_done(connection_->run(begin, now() + kScanPatience))) return;
  is_done(connection_->ask_copy(
      fmt::format("copy (select batch, part, value from {} where kind = '{}' order by batch, part) "
                  "to stdout (format binary)",
                  name_of(Table::kIndex), kind)));
}

void KindCopy::wait_first() {
  if (status_ && is_done(connection_->begin_copy_out(now() + kScanPatience))) next();
}

template <class T>
bool KindCopy::is_done(const PgExpected<T>& done) {
  if (done) return true;
  status_ = std::unexpected(reading_error(done.error()));
  connection_.reset();
  row_ = {};
  return false;
}

void KindCopy::next() {
  for (;;) {
    auto row = connection_->copy_row(now() + kScanPatience);
    if (!is_done(row)) return;
    row_ = std::move(*row);
    if (row_.empty()) break;
    if (take_apart(row_.bytes())) return;
  }
  if (is_done(connection_->run("commit", now() + kScanPatience))) pool_.give_back(std::move(connection_));
}

bool KindCopy::take_apart(std::string_view bytes) {
  if (std::exchange(is_first_, false)) {
    check(bytes.size() >= kHeaderBytes, "the header of COPY is too short");
    bytes.remove_prefix(kHeaderBytes);
  }
  if (take_number(bytes, sizeof(std::uint16_t)) != kColumns) return false;
  RowPlace place{.kind = kind_};
  place.batch = static_cast<std::int64_t>(key_number(take_column(bytes)));
  place.part = static_cast<std::int64_t>(key_number(take_column(bytes)));
  value_ = take_column(bytes);
  key_ = key_of(Table::kIndex, place);
  return true;
}

}  // namespace locksley::daemon

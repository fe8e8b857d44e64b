#include "daemon/store/postgres/kind_copy.h"

#include <fmt/format.h>

#include <utility>

#include "daemon/base/time.h"
#include "daemon/store/postgres/copied_columns.h"
#include "daemon/store/postgres/reading.h"
#include "daemon/store/postgres/row_place.h"

namespace locksley::daemon {

KindCopy::KindCopy(ConnectionPool& pool, char kind) : pool_(pool), kind_(static_cast<unsigned char>(kind)) {
  auto taken = pool.take(ReadingConnection::kAny);
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
  CopiedColumns columns(bytes, std::exchange(is_first_, false));
  if (columns.is_end()) return false;
  RowPlace place{.kind = kind_};
  place.batch = columns.take_number();
  place.part = columns.take_number();
  value_ = columns.take();
  key_ = key_of(Table::kIndex, place);
  return true;
}

}  // namespace locksley::daemon

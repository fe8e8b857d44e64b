#include "daemon/store/postgres/postgres_cursor.h"

#include <fmt/format.h>

#include <algorithm>

#include "daemon/base/time.h"
#include "daemon/store/postgres/reading.h"

namespace locksley::daemon {
namespace {

constexpr int kFirstPage = 32;
constexpr int kFirstPageOfBatch =
    1;  // a row has a few hundred KB, or one large value, and may be all that is wanted
constexpr int kLargestPage = 2048;
constexpr std::size_t kPageBytes = 1U << 20;

}  // namespace

template <class T>
bool PostgresCursor::is_done(const PgExpected<T>& done) {
  if (done) return true;
  status_ = std::unexpected(reading_error(done.error()));
  connection_.reset();
  return false;
}

PostgresCursor::PostgresCursor(ConnectionPool& pool, const RowRange& range)
    : pool_(pool), table_(range.table), is_read_once_(range.is_read_once), patience_(kReadPatience) {
  auto taken = pool.take(ReadingConnection::kAny);
  if (!is_done(taken)) return;
  connection_ = std::move(*taken);
  open(range);
  if (status_) settle();
}

PostgresCursor::~PostgresCursor() {
  // A page that was asked for is not waited for: the session ends instead.
  if (connection_ == nullptr || asked_for_ != 0) return;
  if (connection_->run("commit", now() + kReadPatience)) pool_.give_back(std::move(connection_));
}

void PostgresCursor::open(const RowRange& range) {
  const PlaceRange places = places_in(range.table, range.low, range.high);
  if (places.is_of_one_batch()) return open_in_batch(places, range);
  patience_ = kScanPatience;
  open_over_batches(places, range);
}

// All in one round trip.
void PostgresCursor::open_in_batch(PlaceRange places, const RowRange& range) {
  const std::int64_t last = places.last_part();
  Parameters parameters{Parameter::int4(shard_of(places.low.batch)), Parameter::int8(places.low.batch),
                        Parameter::int8(places.low.part), Parameter::int8(last)};
  std::string condition = "shard = $1 and batch = $2";
  if (table_ == Table::kIndex) {
    condition += " and kind = $5";
    parameters.push_back(Parameter::one_char(places.low.kind));
  }
  std::string first = "$3";
  if (!range.from_at_most.empty()) {
    const RowPlace after = first_from(table_, std::string(range.from_at_most) + '\0');
    if (places.low < after) {
      const bool is_inside = after < *places.high && after.batch == places.low.batch;
      parameters.push_back(Parameter::int8(is_inside ? after.part - 1 : last));
      first = fmt::format("coalesce((select max(part) from {} where {} and part >= $3 and part <= ${}), $3)",
                          name_of(table_), condition, parameters.size());
    }
  }
  const std::string declare = fmt::format(
      "declare page no scroll cursor for select {} batch, part, value from {} where {} and part >= {} and "
      "part <= $4 "
      "order by part",
      table_ == Table::kIndex ? "kind," : "", name_of(table_), condition, first);
  const Instant deadline = now() + kReadPatience;
  if (!is_done(connection_->send("begin", kBeginReading, {})) ||
      !is_done(connection_->send(nullptr, lock_sql(table_).c_str(), {})) ||
      !is_done(connection_->send(nullptr, declare.c_str(), parameters)) ||
      !is_done(
          connection_->send(nullptr, fmt::format("fetch {} from page", kFirstPageOfBatch).c_str(), {})) ||
      !is_done(connection_->end_pipeline()) || !is_done(connection_->next(deadline)) ||
      !is_done(connection_->next(deadline)) || !is_done(connection_->next(deadline))) {
    return;
  }
  keep_page(connection_->next(deadline), kFirstPageOfBatch);
  if (connection_ != nullptr) is_done(connection_->finish(deadline));
}

namespace {

// The condition of a range over several batches, and its parameters, of which the first is $1.
struct Condition {
  std::string sql;
  Parameters parameters;
  bool is_of_one_kind;
};
Condition condition_of(Table table, const PlaceRange& places) {
  Condition condition;
  const auto add = [&](Parameter parameter) {
    condition.parameters.push_back(std::move(parameter));
    return fmt::format("${}", condition.parameters.size());
  };
  // No row has the greatest number.
  const RowPlace high =
      places.high.value_or(RowPlace{.kind = 0xFF, .batch = RowPlace::kMost, .part = RowPlace::kMost});
  const bool ends_with_kind =
      high.kind == places.low.kind + 1 && high.batch == RowPlace::kLeast && high.part == RowPlace::kLeast;
  condition.is_of_one_kind = table != Table::kIndex || high.kind == places.low.kind || ends_with_kind;
  if (condition.is_of_one_kind) {
    if (table == Table::kIndex)
      condition.sql = "kind = " + add(Parameter::one_char(places.low.kind)) + " and ";
    // `batch` alone, because it is a column of the index by itself.
    const std::string batch = add(Parameter::int8(places.low.batch));
    condition.sql += fmt::format("batch >= {} and (batch, part) >= ({}, {})", batch, batch,
                                 add(Parameter::int8(places.low.part)));
    if (!ends_with_kind) {
      const std::string last = add(Parameter::int8(high.batch));
      condition.sql += fmt::format(" and batch <= {} and (batch, part) < ({}, {})", last, last,
                                   add(Parameter::int8(high.part)));
    }
    return condition;
  }
  for (const auto& [bound, comparison] : {std::pair{places.low, ">="}, std::pair{high, "<"}}) {
    if (!condition.sql.empty()) condition.sql += " and ";
    const std::string kind = add(Parameter::one_char(bound.kind));
    const std::string batch = add(Parameter::int8(bound.batch));
    condition.sql += fmt::format("(kind, batch, part) {} ({}, {}, {})", comparison, kind, batch,
                                 add(Parameter::int8(bound.part)));
  }
  return condition;
}

}  // namespace

void PostgresCursor::open_over_batches(PlaceRange places, const RowRange& range) {
  const Instant deadline = now() + kScanPatience;
  if (!is_done(connection_->run(fmt::format("{};{}", kBeginReading, lock_sql(table_)), deadline))) return;
  read_names(range);
  if (status_ && !range.from_at_most.empty()) seek(places, range.from_at_most);
  if (!status_) return;
  const char* const kind = table_ == Table::kIndex ? "kind," : "";
  const Condition condition = condition_of(table_, places);
  // Of one kind: by the primary key, shard by shard, since few rows of a large table may be wanted.
  const std::string sql =
      condition.is_of_one_kind
          ? fmt::format(
                "declare page no scroll cursor for select {0} batch, part, value from generate_series(0, 63) "
                "s "
                "cross join lateral (select {0} batch, part, value from {1} where shard = s and {2}) r "
                "order by batch, part",
                kind, name_of(table_), condition.sql)
          : fmt::format(
                "declare page no scroll cursor for select kind, batch, part, value from {} where {} "
                "order by kind, batch, part",
                name_of(table_), condition.sql);
  if (!is_done(connection_->run(sql, condition.parameters, deadline))) return;
  ask_for_page();
  if (status_) take_asked_page();
}

void PostgresCursor::seek(PlaceRange& places, std::string_view from_at_most) {
  PlaceRange before = places;
  const RowPlace after = first_from(table_, std::string(from_at_most) + '\0');
  if (!before.high || after < *before.high) before.high = after;
  std::string start;
  if (before.low < *before.high) {
    const char* const kind = table_ == Table::kIndex ? "kind," : "";
    const char* const kind_down = table_ == Table::kIndex ? "kind desc," : "";
    const Condition condition = condition_of(table_, before);
    const std::string sql =
        condition.is_of_one_kind
            ? fmt::format(
                  "select {0} batch, part from generate_series(0, 63) s cross join lateral "
                  "(select {0} batch, part from {1} where shard = s and {2} order by batch desc, {3} part "
                  "desc "
                  "limit 1) r order by batch desc, part desc limit 1",
                  kind, name_of(table_), condition.sql, kind_down)
            : fmt::format(
                  "select kind, batch, part from {} where {} order by kind desc, batch desc, part desc limit "
                  "1",
                  name_of(table_), condition.sql);
    const auto found = connection_->run(sql, condition.parameters, now() + kScanPatience);
    if (!is_done(found)) return;
    if (PQntuples(found->get()) == 1) start = key_of(table_, place_in(**found, 0));
  }
  for (const auto& [name, value] : names_) {
    if (name <= from_at_most) start = std::max(start, name);
  }
  if (start.empty()) return;
  places.low = std::max(places.low, first_from(table_, start));
  std::erase_if(names_, [&](const auto& each) { return each.first < start; });
}

void PostgresCursor::read_names(const RowRange& range) {
  const auto read = connection_->run(
      "select name, value from locksley_name where place = $1 and name >= $2 and (name < $3 or $3 = '') "
      "order by name",
      {place_name(table_), Parameter::bytea(range.low), Parameter::bytea(range.high)}, now() + kScanPatience);
  if (!is_done(read)) return;
  for (int row = 0; row < PQntuples(read->get()); ++row) {
    names_.emplace_back(bytes_of(**read, row, 0), bytes_of(**read, row, 1));
  }
}

void PostgresCursor::ask_for_page() {
  int next = kFirstPage;
  if (page_ != nullptr && PQntuples(page_.get()) != 0) {
    const std::size_t row =
        PQresultMemorySize(page_.get()) / static_cast<std::size_t>(PQntuples(page_.get())) + 1;
    next = std::clamp(static_cast<int>(kPageBytes / row), 1, kLargestPage);
  }
  if (is_done(connection_->ask(fmt::format("fetch {} from page", next), {}))) asked_for_ = next;
}

void PostgresCursor::take_asked_page() {
  const int size = std::exchange(asked_for_, 0);
  keep_page(connection_->answer(now() + patience_), size);
}

void PostgresCursor::keep_page(PgExpected<Result> page, int size) {
  row_ = 0;
  page_.reset();
  page_size_ = size;
  if (is_done(page)) page_ = std::move(*page);
}

RowPlace PostgresCursor::place_in(const PGresult& result, int row) const {
  RowPlace place;
  int column = 0;
  if (table_ == Table::kIndex)
    place.kind = static_cast<unsigned char>(bytes_of(result, row, column++).front());
  place.batch = int8_of(result, row, column++);
  place.part = int8_of(result, row, column);
  return place;
}

void PostgresCursor::next() {
  if (is_at_name_) {
    ++name_;
  } else if (++row_ >= PQntuples(page_.get()) && !is_last_page()) {
    if (asked_for_ == 0) ask_for_page();
    if (status_) take_asked_page();
    if (!status_) return;
    if (is_read_once_ && !is_last_page()) ask_for_page();
  }
  settle();
}

void PostgresCursor::settle() {
  if (has_row()) key_ = key_of(table_, place_in(*page_, row_));
  is_at_name_ = has_name() && (!has_row() || names_[name_].first < key_);
}

std::string_view PostgresCursor::value() const {
  if (is_at_name_) return names_[name_].second;
  return bytes_of(*page_, row_, table_ == Table::kIndex ? 3 : 2);
}

}  // namespace locksley::daemon

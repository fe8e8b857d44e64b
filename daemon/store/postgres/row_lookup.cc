#include "daemon/store/postgres/row_lookup.h"

#include <fmt/format.h>

#include <array>
#include <stop_token>
#include <utility>

#include "daemon/base/time.h"
#include "daemon/store/postgres/reading.h"
#include "daemon/store/postgres/row_place.h"

namespace locksley::daemon {
namespace {

struct Query {
  const char* name;
  const char* sql;
};

// $1 shard, $2 batch, $3 part, of the index $4 kind
#define LOCKSLEY_GET(table) "select value from " table " where shard = $1 and batch = $2 and part = $3"
constexpr std::array<Query, kTables> kGetQueries{
    {{"get_index", LOCKSLEY_GET("locksley_index") " and kind = $4"},
     {"get_payload", LOCKSLEY_GET("locksley_payload")},
     {"get_result", LOCKSLEY_GET("locksley_result")}}};
constexpr Query kNameQuery{"get_name", "select value from locksley_name where place = $1 and name = $2"};

// $1 shard, $2 batch, $3 the first part of the range, $4 the last one, $5 the one from which on, or
// the last one before it; of the index $6 kind
#define LOCKSLEY_FIRST(table, kind)                                                             \
  "select part, value from " table " where shard = $1 and batch = $2" kind                      \
  " and part >= coalesce((select max(part) from " table " where shard = $1 and batch = $2" kind \
  " and part >= $3 and part <= $5), $3) and part <= $4 order by part limit 1"
constexpr std::array<Query, kTables> kFirstQueries{
    {{"first_index", LOCKSLEY_FIRST("locksley_index", " and kind = $6")},
     {"first_payload", LOCKSLEY_FIRST("locksley_payload", "")},
     {"first_result", LOCKSLEY_FIRST("locksley_result", "")}}};

// The result of the statement, which is sent alone, or in a transaction that locks the table
// before.
PgExpected<Result> run(PgConnection& connection, const Query& statement, const Parameters& parameters,
                       std::optional<Table> locked, std::chrono::milliseconds patience) {
  const Instant deadline = now() + patience;
  const auto send = [&](const Query& each, const Parameters& with = {}) {
    return connection.send(each.name, each.sql, with);
  };
  PgExpected<void> sent;
  if (locked) {
    sent = send({"begin_reading", kBeginReading});
    if (sent) sent = send({nullptr, lock_sql(*locked).c_str()});
  }
  if (sent) sent = send(statement, parameters);
  if (sent && locked) sent = send({"end_reading", "commit"});
  if (sent) sent = connection.end_pipeline();
  if (!sent) return std::unexpected(sent.error());
  PgExpected<Result> wanted;
  const int statements = locked ? 4 : 1;
  const int at = locked ? 2 : 0;
  for (int i = 0; i < statements; ++i) {
    auto result = connection.next(deadline);
    if (!result) return result;
    if (i == at) wanted = std::move(result);
  }
  if (const auto finished = connection.finish(deadline); !finished) return std::unexpected(finished.error());
  return wanted;
}

// The same with a connection of the pool, which gets it back if all went well.
std::expected<Result, EngineError> run(ConnectionPool& pool, const Query& statement,
                                       const Parameters& parameters, std::optional<Table> locked,
                                       std::chrono::milliseconds patience, const std::stop_token& stop) {
  auto connection = pool.take(ReadingConnection::kAny);
  if (!connection) return std::unexpected(reading_error(connection.error()));
  auto result = [&] {
    const std::stop_callback stopped(stop, [&connection] { (*connection)->break_off(); });
    return run(**connection, statement, parameters, locked, patience);
  }();
  if (!result) return std::unexpected(reading_error(result.error()));
  pool.give_back(std::move(*connection));
  return std::move(*result);
}

// What gets the row with this key.
std::pair<Query, Parameters> get_query(Table table, std::string_view key) {
  const auto place = place_of(table, key);
  if (!place) return {kNameQuery, {place_name(table), Parameter::bytea(key)}};
  Parameters parameters{Parameter::int4(shard_of(place->batch)), Parameter::int8(place->batch),
                        Parameter::int8(place->part)};
  if (table == Table::kIndex) parameters.push_back(Parameter::one_char(place->kind));
  return {kGetQueries[static_cast<std::size_t>(table)], std::move(parameters)};
}

PgExpected<RowValues> get_rows(PgConnection& connection, Table table, std::span<const Key> keys,
                               std::chrono::milliseconds patience) {
  const Instant deadline = now() + patience;
  for (const Key& key : keys) {
    const auto [statement, parameters] = get_query(table, key);
    if (auto sent = connection.send(statement.name, statement.sql, parameters); !sent)
      return std::unexpected(std::move(sent.error()));
  }
  if (auto sent = connection.end_pipeline(); !sent) return std::unexpected(std::move(sent.error()));
  RowValues values;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const auto found = connection.next(deadline);
    if (!found) return std::unexpected(found.error());
    const bool is_there = PQntuples(found->get()) == 1;
    values.push_back(is_there ? std::optional<std::string>(bytes_of(**found, 0, 0)) : std::nullopt);
  }
  if (auto finished = connection.finish(deadline); !finished)
    return std::unexpected(std::move(finished.error()));
  return values;
}

}  // namespace

std::expected<bool, EngineError> get_row(ConnectionPool& pool, Table table, std::string_view key,
                                         std::string& value, std::chrono::milliseconds patience) {
  const auto [statement, parameters] = get_query(table, key);
  const auto found = run(pool, statement, parameters, std::nullopt, patience, {});
  if (!found) return std::unexpected(found.error());
  const bool is_there = PQntuples(found->get()) == 1;
  if (is_there) value = bytes_of(**found, 0, 0);
  return is_there;
}

std::expected<RowValues, EngineError> get_rows(ConnectionPool& pool, Table table, std::span<const Key> keys,
                                               std::chrono::milliseconds patience,
                                               ReadingConnection connection) {
  auto taken = pool.take(connection);
  if (!taken) return std::unexpected(reading_error(std::move(taken.error())));
  auto values = get_rows(**taken, table, keys, patience);
  if (!values) return std::unexpected(reading_error(std::move(values.error())));
  pool.give_back(std::move(*taken));
  return *std::move(values);
}

std::expected<std::optional<FoundRow>, EngineError> first_row_in_batch(ConnectionPool& pool,
                                                                       const RowRange& range,
                                                                       std::chrono::milliseconds patience,
                                                                       const std::stop_token& stop) {
  const PlaceRange places = places_in(range.table, range.low, range.high);
  const std::int64_t last = places.last_part();
  std::int64_t from = places.low.part;
  if (!range.from_at_most.empty()) {
    const RowPlace after = first_from(range.table, std::string(range.from_at_most) + '\0');
    const bool is_inside = after < *places.high && after.batch == places.low.batch;
    if (places.low < after) from = is_inside ? after.part - 1 : last;
  }
  Parameters parameters{Parameter::int4(shard_of(places.low.batch)), Parameter::int8(places.low.batch),
                        Parameter::int8(places.low.part), Parameter::int8(last), Parameter::int8(from)};
  if (range.table == Table::kIndex) parameters.push_back(Parameter::one_char(places.low.kind));
  const auto found = run(pool, kFirstQueries[static_cast<std::size_t>(range.table)], parameters, range.table,
                         patience, stop);
  if (!found) return std::unexpected(found.error());
  if (PQntuples(found->get()) == 0) return std::nullopt;
  RowPlace place = places.low;
  place.part = int8_of(**found, 0, 0);
  return FoundRow{key_of(range.table, place), std::string(bytes_of(**found, 0, 1))};
}

std::expected<std::uint64_t, EngineError> read_highest_batch(ConnectionPool& pool) {
  auto connection = pool.take(ReadingConnection::kAny);
  if (!connection) return std::unexpected(reading_error(connection.error()));
  std::string sql = "select coalesce(max(batch), 0) from (";
  for (const Table table : {Table::kIndex, Table::kPayloads, Table::kResults}) {
    if (table != Table::kIndex) sql += " union all ";
    sql += fmt::format(
        "select batch from generate_series(0, {}) s cross join lateral "
        "(select batch from {} where shard = s order by batch desc limit 1) r",
        kShards - 1, name_of(table));
  }
  const auto found = (*connection)->run(sql + ") all_tables", Parameters{}, now() + kScanPatience);
  if (!found) return std::unexpected(reading_error(found.error()));
  const std::int64_t highest = int8_of(**found, 0, 0);
  pool.give_back(std::move(*connection));
  return static_cast<std::uint64_t>(highest);
}

}  // namespace locksley::daemon

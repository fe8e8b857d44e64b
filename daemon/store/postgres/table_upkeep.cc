#include "daemon/store/postgres/table_upkeep.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace locksley::daemon {
namespace {

const char* table_name(Table table) {
  return table == Table::kPayloads ? "locksley_payload" : "locksley_result";
}
std::string table_name(Table table, std::int16_t number) {
  return fmt::format("{}_{}", table_name(table), number);
}
// What a row takes: its part of a page, since a page holds no parts of rows, and an entry of the
// index. Of a value that lies outside of its row, the value in place of the part of a page. The
// numbers are those of PostgreSQL's page layout: 8,168 bytes for rows and their 4-byte pointers; a
// header of 24 bytes, columns of 30 besides the value, together a multiple of 8. The entry of the
// index is an estimate from tables of small values.
constexpr const char* kRowBytes =
    "(case when octet_length(value) <= 8000 then 8192 / (8168 / ((octet_length(value) + 61) / 8 * 8 + 4)) "
    "else octet_length(value) + 64 end + 56)";
// So much of a table is read to find out which part of it is live: pages that are chosen at random.
constexpr std::uint64_t kSampleBytes = std::uint64_t{4} << 20;
constexpr std::string_view kQueryCanceled = "57014";  // a SQLSTATE: statement_timeout has passed

// Queries that may be too slow: between begin() and end(). A table that takes longer than a second
// to read is left as it is, because the beats wait meanwhile.
class BoundedQueries {
 public:
  BoundedQueries(PgConnection& connection, Instant deadline) : connection_(connection), deadline_(deadline) {}

  PgExpected<void> begin() { return set("set statement_timeout = '1s'"); }
  PgExpected<void> end() { return set("set statement_timeout = 0"); }
  // None: it was too slow, or the table is locked.
  PgExpected<std::optional<Result>> run(const std::string& sql, const Parameters& parameters) {
    auto found = connection_.run(sql, parameters, deadline_);
    if (found) return std::move(*found);
    const std::string_view state = found.error().state;
    if (state == kQueryCanceled || state == kLockNotAvailable) return std::nullopt;
    return std::unexpected(found.error());
  }

 private:
  PgExpected<void> set(const char* sql) {
    if (const auto done = connection_.run(sql, deadline_); !done) return std::unexpected(done.error());
    return {};
  }

  PgConnection& connection_;
  const Instant deadline_;
};

PgExpected<std::optional<TableBytes>> bytes_of(BoundedQueries& queries, const std::string& table) {
  const auto found = queries.run(
      fmt::format("select (coalesce(sum({0}), 0)::float8 * greatest({1}, pg_relation_size('{2}')) / "
                  "{1})::bigint, pg_total_relation_size('{2}')::bigint from {2} tablesample system "
                  "(100.0 * {1} / greatest({1}, pg_relation_size('{2}')))",
                  kRowBytes, kSampleBytes, table),
      {});
  if (!found) return std::unexpected(found.error());
  if (!*found) return std::nullopt;
  return TableBytes{.live = static_cast<std::uint64_t>(int8_of(***found, 0, 0)),
                    .size = static_cast<std::uint64_t>(int8_of(***found, 0, 1))};
}

// Whether a pg_dump of this database is connected.
PgExpected<bool> is_being_dumped(PgConnection& connection, Instant deadline) {
  const auto found = connection.run(
      "select (exists (select from pg_stat_activity where application_name = 'pg_dump' and datname = "
      "current_database()))::int",
      Parameters{}, deadline);
  if (!found) return std::unexpected(found.error());
  return int4_of(**found, 0, 0) != 0;
}

std::string table_name(const Generations::Span& span) { return table_name(span.table, span.number); }

PgExpected<bool> has_rows(PgConnection& connection, const Generations::Span& span, Instant deadline) {
  const auto found = connection.run(fmt::format("select (exists (select from {}))::int", table_name(span)),
                                    Parameters{}, deadline);
  if (!found) return std::unexpected(found.error());
  return int4_of(**found, 0, 0) != 0;
}

// The statements that store the spans of a kind as they are in `generations`.
std::string spans_sql(const Generations& generations, Table table) {
  const int place = static_cast<int>(table);
  std::string sql = fmt::format("delete from locksley_generation where place = '{}';", place);
  for (const Generations::Span& span : generations.spans(table)) {
    sql +=
        fmt::format("insert into locksley_generation values ('{}', {}, {});", place, span.first, span.number);
  }
  return sql;
}

// One transaction behind the fence.
class UpkeepTransaction {
 public:
  UpkeepTransaction(PgConnection& connection, Instant deadline)
      : connection_(connection), deadline_(deadline) {}

  // kDone: the fence holds, and the transaction goes on.
  PgExpected<Freed> begin(std::int32_t node) {
    if (const auto begun = connection_.run("begin; set local lock_timeout = '100ms'", deadline_); !begun) {
      return std::unexpected(begun.error());
    }
    const auto fence = connection_.run("update locksley_node set beat = beat + 1 where node = $1 and alive",
                                       {Parameter::int4(node)}, deadline_);
    if (!fence) return after_error(fence.error());
    if (rows_changed(**fence) != 1) return give_up(Freed::kFenced);
    return Freed::kDone;
  }

  // kDone: the transaction goes on.
  PgExpected<Freed> run(const std::string& sql) {
    if (const auto changed = connection_.run(sql, deadline_); !changed) return after_error(changed.error());
    return Freed::kDone;
  }

  PgExpected<Freed> commit() {
    connection_.take_warning();
    if (const auto committed = connection_.run("commit", deadline_); !committed) {
      // Refused or not: its outcome is not known here.
      return std::unexpected(PgError{committed.error().error, ""});
    }
    // The wait for the synchronous standby was cancelled: whether it has the changes is unknown.
    if (const std::string warning = connection_.take_warning(); !warning.empty())
      return std::unexpected(PgError::failed(warning));
    return Freed::kDone;
  }
  // The last statements. Then `generations` are `after`. Returns `done`, or why nothing was done.
  PgExpected<Freed> commit(const std::string& sql, Generations after, Generations& generations, Freed done) {
    if (const auto ran = run(sql); !ran || *ran != Freed::kDone) return ran;
    if (const auto committed = commit(); !committed) return committed;
    generations = std::move(after);
    return done;
  }

  // Returns `why`, if the server has taken everything back.
  PgExpected<Freed> give_up(Freed why) {
    if (const auto back = connection_.run("rollback", deadline_); !back) return std::unexpected(back.error());
    return why;
  }

  // Errors that do not break the connection.
  PgExpected<Freed> after_error(const PgError& error) {
    if (error.state == kLockNotAvailable || error.state == kQueryCanceled) return give_up(Freed::kLocked);
    if (error.state == "42501") return give_up(Freed::kForbidden);  // insufficient_privilege
    return std::unexpected(error);
  }

 private:
  PgConnection& connection_;
  const Instant deadline_;
};

}  // namespace

PgExpected<std::vector<std::optional<TableBytes>>> bytes_of_first(PgConnection& connection,
                                                                  const std::vector<Generations::Span>& spans,
                                                                  Instant enough, Instant deadline) {
  BoundedQueries queries(connection, deadline);
  if (const auto begun = queries.begin(); !begun) return std::unexpected(begun.error());
  std::vector<std::optional<TableBytes>> found;
  for (const Generations::Span& span : spans) {
    const auto bytes = bytes_of(queries, table_name(span));
    if (!bytes) return std::unexpected(bytes.error());
    found.push_back(*bytes);
    if (now() >= enough) break;
  }
  if (const auto ended = queries.end(); !ended) return std::unexpected(ended.error());
  return found;
}

PgExpected<std::optional<TableBytes>> bytes_of_index(PgConnection& connection, Instant deadline) {
  BoundedQueries queries(connection, deadline);
  if (const auto begun = queries.begin(); !begun) return std::unexpected(begun.error());
  const auto bytes = bytes_of(queries, "locksley_index");
  if (!bytes) return bytes;
  if (const auto ended = queries.end(); !ended) return std::unexpected(ended.error());
  return bytes;
}

PgExpected<std::optional<MoveStep>> next_step(PgConnection& connection, const Generations::Span& span,
                                              std::uint64_t most, Instant deadline) {
  BoundedQueries queries(connection, deadline);
  if (const auto begun = queries.begin(); !begun) return std::unexpected(begun.error());
  const auto found =
      queries.run(fmt::format("select coalesce(min(batch) filter (where bytes > $1 and number > 1), -1), "
                              "coalesce(max(bytes) filter (where bytes <= $1 or number = 1), 0)::bigint, "
                              "coalesce(min(bytes), 0)::bigint, coalesce(max(bytes), 0)::bigint "
                              "from (select batch, row_number() over (order by batch) as number, "
                              "sum(sum({})) over (order by batch) as bytes from {} group by batch) batches",
                              kRowBytes, table_name(span)),
                  {Parameter::int8(static_cast<std::int64_t>(most))});
  if (!found) return std::unexpected(found.error());
  if (const auto ended = queries.end(); !ended) return std::unexpected(ended.error());
  if (!*found) return std::nullopt;
  const auto bytes = [&](int column) { return static_cast<std::uint64_t>(int8_of(***found, 0, column)); };
  MoveStep step{.end = std::nullopt, .bytes = bytes(1), .first_bytes = bytes(2), .table_bytes = bytes(3)};
  if (const std::int64_t end = int8_of(***found, 0, 0); end >= 0) step.end = end;
  return step;
}

PgExpected<Freed> truncate_if_empty(PgConnection& connection, std::int32_t node,
                                    const Generations::Span& span, Generations& generations,
                                    Instant deadline) {
  const auto rows = has_rows(connection, span, deadline);
  if (!rows && rows.error().state == kLockNotAvailable) return Freed::kLocked;
  if (!rows) return std::unexpected(rows.error());
  if (*rows) return Freed::kHasRows;
  UpkeepTransaction transaction(connection, deadline);
  if (const auto begun = transaction.begin(node); !begun || *begun != Freed::kDone) return begun;
  // Since it was looked at first, rows may have come.
  const auto still = has_rows(connection, span, deadline);
  if (!still) return transaction.after_error(still.error());
  if (*still) return transaction.give_up(Freed::kHasRows);
  Generations after = generations;
  after.end(span);
  const std::string sql = fmt::format("truncate {};", table_name(span)) + spans_sql(after, span.table);
  return transaction.commit(sql, std::move(after), generations, Freed::kDone);
}

PgExpected<Freed> move_rows(PgConnection& connection, std::int32_t node, const Generations::Span& span,
                            const MoveStep& step, MovePlanner::Target& target, Generations& generations,
                            Instant deadline) {
  if (std::ranges::find(generations.spans(span.table), span) == generations.spans(span.table).end())
    return Freed::kHasRows;
  UpkeepTransaction transaction(connection, deadline);
  if (const auto begun = transaction.begin(node); !begun || *begun != Freed::kDone) return begun;
  Generations after = generations;
  after.move(span, step.end, target.number);
  const std::string from = table_name(span);
  const std::string to = table_name(span.table, target.number);
  const auto size = [&]() -> PgExpected<std::uint64_t> {
    const auto found = connection.run(fmt::format("select pg_total_relation_size('{}')::bigint", to),
                                      Parameters{}, deadline);
    if (!found) return std::unexpected(found.error());
    return static_cast<std::uint64_t>(int8_of(**found, 0, 0));
  };
  // First, so that nothing has been written if the table is in use.
  const auto locked = transaction.run(
      fmt::format("lock table {} in {} mode", from, step.end ? "row exclusive" : "access exclusive"));
  if (!locked || *locked != Freed::kDone) return locked;
  const auto before = size();
  if (!before) return transaction.after_error(before.error());
  const std::string which = step.end ? fmt::format("where batch < {}", *step.end) : "";
  const auto copied = transaction.run(fmt::format(
      "insert into {} (shard, batch, part, value, generation) select shard, batch, part, value, {} from {} "
      "{}",
      to, target.number, from, which));
  if (!copied || *copied != Freed::kDone) return copied;
  const auto now_has = size();
  if (!now_has) return transaction.after_error(now_has.error());
  target.size_before = *before;
  target.size = *now_has;
  const std::string sql =
      (step.end ? fmt::format("delete from {} {};", from, which) : fmt::format("truncate {};", from)) +
      spans_sql(after, span.table);
  return transaction.commit(sql, std::move(after), generations, step.end ? Freed::kMoved : Freed::kDone);
}

PgExpected<Freed> rewrite_index(PgConnection& connection, std::int32_t node, Instant deadline) {
  const auto dumped = is_being_dumped(connection, deadline);
  if (!dumped) return std::unexpected(dumped.error());
  if (*dumped) return Freed::kLocked;
  UpkeepTransaction transaction(connection, deadline);
  if (const auto begun = transaction.begin(node); !begun || *begun != Freed::kDone) return begun;
  const auto locked = transaction.run(
      "set local statement_timeout = '1s'; lock table locksley_index in access exclusive mode");
  if (!locked || *locked != Freed::kDone) return locked;
  const auto rows = connection.copy_out("copy locksley_index to stdout (format binary)", deadline);
  if (!rows) return transaction.after_error(rows.error());
  if (const auto emptied = transaction.run("truncate locksley_index"); !emptied || *emptied != Freed::kDone)
    return emptied;
  const auto written =
      connection.copy_in("copy locksley_index from stdin (format binary, freeze)", *rows, deadline);
  if (!written) return transaction.after_error(written.error());
  const auto dumped_meanwhile = is_being_dumped(connection, deadline);
  if (!dumped_meanwhile) return std::unexpected(dumped_meanwhile.error());
  if (*dumped_meanwhile) return transaction.give_up(Freed::kLocked);
  return transaction.commit();
}

PgExpected<Freed> truncate_changes(PgConnection& connection, std::int32_t node, std::int16_t half,
                                   Instant deadline) {
  UpkeepTransaction transaction(connection, deadline);
  if (const auto begun = transaction.begin(node); !begun || *begun != Freed::kDone) return begun;
  const auto emptied = transaction.run(fmt::format("truncate locksley_change_{}", half));
  if (!emptied || *emptied != Freed::kDone) return emptied;
  return transaction.commit();
}

PgExpected<Generations> read_generations(PgConnection& connection, Instant deadline) {
  const auto rows =
      connection.run("select place, first, generation::int from locksley_generation order by place, first",
                     Parameters{}, deadline);
  if (!rows) return std::unexpected(rows.error());
  std::vector<Generations::Span> spans;
  for (int row = 0; row < PQntuples(rows->get()); ++row) {
    spans.push_back({.table = static_cast<Table>(bytes_of(**rows, row, 0).front() - '0'),
                     .first = int8_of(**rows, row, 1),
                     .number = static_cast<std::int16_t>(int4_of(**rows, row, 2))});
  }
  std::int64_t last[2];
  for (const Table table : {Table::kPayloads, Table::kResults}) {
    const auto found = connection.run(
        fmt::format(
            "select coalesce(max(batch), -1)::bigint from generate_series(0, 63) s cross join lateral "
            "(select batch from {} where shard = s order by batch desc limit 1) r",
            table_name(table)),
        Parameters{}, deadline);
    if (!found) return std::unexpected(found.error());
    last[table == Table::kResults ? 1 : 0] = int8_of(**found, 0, 0);
  }
  Generations generations;
  generations.load(spans, last[0], last[1]);
  return generations;
}

}  // namespace locksley::daemon

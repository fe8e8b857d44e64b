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
// What a row takes besides its value: its header, the numbers of its key, and an entry of the index. Estimated from tables of
// small values.
constexpr int kRowBytes = 120;
// So much of a table is read to find out which part of it is live: pages that are chosen at random.
constexpr std::uint64_t kSampleBytes = std::uint64_t{4} << 20;
// A table that takes longer to read is left as it is: the beats wait meanwhile.
constexpr auto kLook = "set statement_timeout = '1s'";
constexpr auto kLookEnd = "set statement_timeout = 0";
constexpr std::string_view kQueryCanceled = "57014";  // a SQLSTATE: statement_timeout has passed

// Runs a query that may be too slow. None: it was, or the table is locked.
PgExpected<std::optional<Result>> look(PgConnection& connection, const std::string& sql,
                                       const Parameters& parameters, Instant deadline) {
  if (const auto set = connection.run(kLook, deadline); !set) return std::unexpected(set.error());
  auto found = connection.run(sql, parameters, deadline);
  const bool is_too_slow =
      !found && (found.error().state == kQueryCanceled || found.error().state == kLockNotAvailable);
  if (!found && !is_too_slow) return std::unexpected(found.error());
  if (const auto set = connection.run(kLookEnd, deadline); !set) return std::unexpected(set.error());
  if (is_too_slow) return std::nullopt;
  return std::move(*found);
}

// Estimates what is live in a table. None: that takes longer than a second, or the table is locked.
PgExpected<std::optional<TableBytes>> bytes_of_table(PgConnection& connection, const std::string& table,
                                                     Instant deadline) {
  const auto size = connection.run(
      fmt::format("select pg_total_relation_size('{0}')::bigint, pg_relation_size('{0}')::bigint", table),
      Parameters{}, deadline);
  if (!size && size.error().state == kLockNotAvailable) return std::nullopt;
  if (!size) return std::unexpected(size.error());
  const auto rows_bytes = static_cast<std::uint64_t>(int8_of(**size, 0, 1));
  const double percent = rows_bytes <= kSampleBytes
                             ? 100
                             : 100.0 * static_cast<double>(kSampleBytes) / static_cast<double>(rows_bytes);
  const auto found = look(connection,
                          fmt::format("select coalesce(sum(octet_length(value) + {}), 0)::bigint from {} "
                                      "tablesample system ({})",
                                      kRowBytes, table, percent),
                          {}, deadline);
  if (!found) return std::unexpected(found.error());
  if (!*found) return std::nullopt;
  const auto sampled = static_cast<double>(int8_of(***found, 0, 0));
  return TableBytes{.live = static_cast<std::uint64_t>(sampled * 100 / percent),
                    .size = static_cast<std::uint64_t>(int8_of(**size, 0, 0))};
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

// The statements that make the spans of a kind what they are in `generations`.
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
      // Refused or not, what became of it is not known here.
      return std::unexpected(PgError{committed.error().error, ""});
    }
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

PgExpected<std::optional<TableUse>> use_of(PgConnection& connection, const Generations::Span& span,
                                           Instant deadline) {
  const auto bytes = bytes_of_table(connection, table_name(span), deadline);
  if (!bytes) return std::unexpected(bytes.error());
  if (!*bytes) return std::nullopt;
  return TableUse{.span = span, .live = (*bytes)->live, .size = (*bytes)->size};
}

PgExpected<std::optional<TableBytes>> use_of_index(PgConnection& connection, Instant deadline) {
  return bytes_of_table(connection, "locksley_index", deadline);
}

PgExpected<std::optional<MoveStep>> next_step(PgConnection& connection, const Generations::Span& span,
                                              std::uint64_t most, Instant deadline) {
  auto found = look(
      connection,
      fmt::format(
          "select coalesce(min(batch) filter (where bytes > $1 and number > 1), -1), "
          "coalesce(min(bytes), 0)::bigint "
          "from (select batch, row_number() over (order by batch) as number, "
          "sum(sum(octet_length(value) + {})) over (order by batch) as bytes from {} group by batch) batches",
          kRowBytes, table_name(span)),
      {Parameter::int8(static_cast<std::int64_t>(most))}, deadline);
  if (!found) return std::unexpected(found.error());
  if (!*found) return std::nullopt;
  MoveStep step{.end = std::nullopt, .first_bytes = static_cast<std::uint64_t>(int8_of(***found, 0, 1))};
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
  if (!still) return std::unexpected(still.error());
  if (*still) return transaction.give_up(Freed::kHasRows);
  Generations after = generations;
  after.end(span);
  const std::string sql = fmt::format("truncate {};", table_name(span)) + spans_sql(after, span.table);
  return transaction.commit(sql, std::move(after), generations, Freed::kDone);
}

PgExpected<Freed> move_rows(PgConnection& connection, std::int32_t node, const Generations::Span& span,
                            const MoveStep& step, std::int16_t target, Generations& generations,
                            Instant deadline) {
  if (std::ranges::find(generations.spans(span.table), span) == generations.spans(span.table).end())
    return Freed::kHasRows;
  UpkeepTransaction transaction(connection, deadline);
  if (const auto begun = transaction.begin(node); !begun || *begun != Freed::kDone) return begun;
  Generations after = generations;
  after.move(span, step.end, target);
  const std::string from = table_name(span);
  const std::string which = step.end ? fmt::format("where batch < {}", *step.end) : "";
  // First, so that nothing has been written if the table is in use.
  std::string sql = step.end ? "" : fmt::format("lock table {} in access exclusive mode;", from);
  sql += fmt::format(
      "insert into {} (shard, batch, part, value, generation) select shard, batch, part, value, {} from {} "
      "{};",
      table_name(span.table, target), target, from, which);
  sql += step.end ? fmt::format("delete from {} {};", from, which) : fmt::format("truncate {};", from);
  sql += spans_sql(after, span.table);
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

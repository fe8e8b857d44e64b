#include "daemon/store/postgres/table_upkeep.h"

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

namespace locksley::daemon {
namespace {

const char* table_name(Table table) {
  return table == Table::kPayloads ? "locksley_payload" : "locksley_result";
}
std::string table_name(const Generations::Span& span) {
  return fmt::format("{}_{}", table_name(span.table), span.number);
}

// The transaction does not go on. The outcome is `why`, if the server took that back.
PgExpected<Truncated> give_up(PgConnection& connection, Truncated why, Instant deadline) {
  if (const auto back = connection.run("rollback", deadline); !back) return std::unexpected(back.error());
  return why;
}

// Errors that do not break the connection.
PgExpected<Truncated> after_error(PgConnection& connection, const PgError& error, Instant deadline) {
  if (error.state == "55P03") return give_up(connection, Truncated::kLocked, deadline);  // lock_not_available
  if (error.state == "42501")
    return give_up(connection, Truncated::kForbidden, deadline);  // insufficient_privilege
  return std::unexpected(error);
}

PgExpected<bool> has_rows(PgConnection& connection, const Generations::Span& span, Instant deadline) {
  const auto found = connection.run(fmt::format("select (exists (select from {}))::int", table_name(span)),
                                    Parameters{}, deadline);
  if (!found) return std::unexpected(found.error());
  return int4_of(**found, 0, 0) != 0;
}

}  // namespace

PgExpected<std::int64_t> bytes_in(PgConnection& connection, const Generations::Span& span, Instant deadline) {
  const auto found = connection.run(
      fmt::format("select coalesce(sum(octet_length(value)), 0)::bigint from {}", table_name(span)),
      Parameters{}, deadline);
  if (!found) return std::unexpected(found.error());
  return int8_of(**found, 0, 0);
}

PgExpected<Truncated> truncate(PgConnection& connection, std::int32_t node, const Generations::Span& span,
                               bool moves_rest, Generations& generations, Instant deadline) {
  if (!moves_rest) {
    const auto rows = has_rows(connection, span, deadline);
    if (!rows) return std::unexpected(rows.error());
    if (*rows) return Truncated::kHasRows;
  }
  if (const auto begun = connection.run("begin; set local lock_timeout = '100ms'", deadline); !begun) {
    return std::unexpected(begun.error());
  }
  const auto fence = connection.run("update locksley_node set beat = beat + 1 where node = $1 and alive",
                                    {Parameter::int4(node)}, deadline);
  if (!fence) return after_error(connection, fence.error(), deadline);
  if (rows_changed(**fence) != 1) return give_up(connection, Truncated::kFenced, deadline);
  Generations after = generations;
  const bool stays = after.end(span, moves_rest);
  std::string change;
  if (moves_rest) {
    change = fmt::format(
        "insert into {}_{} (shard, batch, part, value, generation) select shard, batch, part, value, {} from "
        "{};",
        table_name(span.table), Generations::kRest, Generations::kRest, table_name(span));
  } else {
    // Since it was looked at first, rows may have come.
    const auto rows = has_rows(connection, span, deadline);
    if (!rows) return std::unexpected(rows.error());
    if (*rows) return give_up(connection, Truncated::kHasRows, deadline);
  }
  change += fmt::format("truncate {};", table_name(span));
  const std::string which =
      fmt::format("where place = '{}' and first = {}", static_cast<int>(span.table), span.first);
  change += stays
                ? fmt::format("update locksley_generation set generation = {} {}", Generations::kRest, which)
                : fmt::format("delete from locksley_generation {}", which);
  if (const auto changed = connection.run(change, deadline); !changed)
    return after_error(connection, changed.error(), deadline);
  connection.take_warning();
  if (const auto done = connection.run("commit", deadline); !done) {
    return std::unexpected(
        PgError{done.error().error, ""});  // refused or not, what became of it is not known here
  }
  generations = std::move(after);
  return Truncated::kDone;
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

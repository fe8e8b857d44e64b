#include "daemon/store/postgres/schema.h"

#include <fmt/format.h>

#include <chrono>
#include <string_view>

#include "daemon/base/time.h"
#include "daemon/store/postgres/generations.h"
#include "daemon/store/postgres/group_writer.h"

namespace locksley::daemon {
namespace {

constexpr int kForm = 2;  // of the tables
constexpr int kFormWithoutGenerations = 1;
constexpr auto kSchemaPatience = std::chrono::seconds(30);

std::string text(const PGresult& result, int column) { return PQgetvalue(&result, 0, column); }

// Values up to 8,000 bytes lie in their row, larger ones outside (toast_tuple_target).
constexpr std::string_view kLayout = "toast_tuple_target = 8160";
// It does not rest (cost_delay): with PostgreSQL's own setting it gave less room back than batches
// of 15 MB/s took when they were deleted, and tables grew without a bound.
constexpr std::string_view kVacuum =
    "autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0, "
    "toast.autovacuum_vacuum_scale_factor = 0.05, toast.autovacuum_vacuum_cost_delay = 0";
// Of tables that are truncated.
constexpr std::string_view kNoVacuum = "autovacuum_enabled = off, toast.autovacuum_enabled = off";

// No value is compressed: that would cost the server more than the bytes that it saves.
std::string table_of_all(std::string_view name) {
  return fmt::format(
      "create table {0} (shard int, batch bigint, part bigint, value bytea not null, generation smallint not "
      "null, "
      "primary key (shard, batch, part, generation)) partition by list (generation);\n"
      "alter table {0} alter value set storage external;\n",
      name);
}
std::string table_of_rest(std::string_view name) {
  return fmt::format("create table {0}_0 partition of {0} for values in (0) with ({1}, {2});\n", name,
                     kLayout, kVacuum);
}
std::string tables_of_generations(std::string_view name) {
  std::string sql;
  for (int number = 1; number <= Generations::kTablesOfBatches; ++number) {
    sql += fmt::format("create table {0}_{1} partition of {0} for values in ({1}) with ({2}, {3});\n", name,
                       number, kLayout, kNoVacuum);
  }
  return sql;
}
constexpr std::string_view kTableOfSpans =
    "create table locksley_generation (place \"char\", first bigint, generation smallint not null, "
    "primary key (place, first));\n";

// The halves are truncated, and need no vacuum.
std::string tables_of_changes() {
  std::string sql =
      "create table locksley_change (node int, number bigint, half smallint, batches bigint[] not null, "
      "primary key (node, number, half)) partition by list (half);\n"
      "alter table locksley_change alter batches set storage external;\n";
  for (int half = 0; half < 2; ++half) {
    sql += fmt::format(
        "create table locksley_change_{0} partition of locksley_change for values in ({0}) with ({1}, "
        "{2});\n",
        half, kLayout, kNoVacuum);
  }
  return sql;
}

// Tables of form 1 had no generations. They become those for the rest.
std::string conversion_of(std::string_view name) {
  return fmt::format(
             "alter table {0} rename to {0}_0;\n"
             "alter table {0}_0 add column generation smallint not null default 0;\n"
             "alter table {0}_0 drop constraint {0}_pkey;\n"
             "alter table {0}_0 add primary key (shard, batch, part, generation);\n",
             name) +
         table_of_all(name) +
         fmt::format("alter table {0} attach partition {0}_0 for values in (0);\n", name) +
         tables_of_generations(name);
}

}  // namespace

std::string schema_sql() {
  std::string sql = fmt::format(
      "create table locksley_cluster (form int, id uuid, shards int);\n"
      "create table locksley_node (node int generated always as identity primary key, name text, wire text, "
      "workers text, alive bool not null, beat bigint not null, committed bigint not null) with (fillfactor "
      "= 20);\n"
      "create table locksley_shard (shard int primary key, owner int);\n"
      "create table locksley_index (shard int, batch bigint, kind \"char\", part bigint, value bytea not "
      "null, "
      "primary key (shard, batch, kind, part)) with ({}, {});\n"
      "alter table locksley_index alter value set storage external;\n"
      "create table locksley_name (place \"char\", name bytea, value bytea not null, primary key (place, "
      "name));\n",
      kLayout, kVacuum);
  for (const char* const name : {"locksley_payload", "locksley_result"})
    sql += table_of_all(name) + table_of_rest(name) + tables_of_generations(name);
  sql += kTableOfSpans;
  sql += tables_of_changes();
  sql += fmt::format(
      "insert into locksley_cluster values ({}, gen_random_uuid(), 64);\n"
      "insert into locksley_shard select shard, null from generate_series(0, 63) shard;\n",
      kForm);
  return sql;
}

std::expected<std::string, std::string> prepare_schema(PgConnection& connection) {
  const Instant deadline = now() + kSchemaPatience;
  for (bool is_second = false;; is_second = true) {
    const auto there = connection.run("select to_regclass('locksley_cluster') is not null", deadline);
    if (!there) return std::unexpected(there.error().error.what);
    if (text(**there, 0) == "t") break;
    const auto created = connection.run("begin;" + schema_sql() + "commit", deadline);
    if (!created) {
      // Another daemon may have been quicker.
      if (is_second || created.error().is_lost() || !connection.run("rollback", deadline)) {
        return std::unexpected("its tables cannot be created: " + created.error().error.what);
      }
    }
  }
  const auto form = connection.run("select form, shards, id from locksley_cluster", deadline);
  if (!form) return std::unexpected(form.error().error.what);
  const bool is_known =
      PQntuples(form->get()) == 1 && (text(**form, 0) == std::to_string(kForm) ||
                                      text(**form, 0) == std::to_string(kFormWithoutGenerations));
  if (!is_known || text(**form, 1) != "64") {
    return std::unexpected(fmt::format(
        "its tables are of another version of Locksley (their form is '{}' with {} shards, this version's is "
        "'{}' with 64): use that version, or another database",
        PQntuples(form->get()) == 1 ? text(**form, 0) : "", text(**form, 1), kForm));
  }
  return text(**form, 2);
}

std::expected<void, std::string> convert_schema(PgConnection& connection, std::int32_t node) {
  constexpr auto kConversionPatience = std::chrono::minutes(10);  // indexes are made anew
  const Instant deadline = now() + kConversionPatience;
  const auto form = connection.run("select form from locksley_cluster", deadline);
  if (!form) return std::unexpected(form.error().error.what);
  if (text(**form, 0) == std::to_string(kForm)) return {};
  // Other daemons wait for the row of this one until the end, so none takes over in between.
  const auto fence =
      connection.run(fmt::format("begin; set local lock_timeout = 0; "
                                 "update locksley_node set beat = beat + 1 where node = {} and alive",
                                 node),
                     deadline);
  if (!fence) return std::unexpected(fence.error().error.what);
  if (rows_changed(**fence) != 1) {
    static_cast<void>(connection.run("rollback", deadline));
    return std::unexpected(std::string(kFencedWords));
  }
  const auto form_now = connection.run("select form from locksley_cluster", deadline);
  if (!form_now) return std::unexpected(form_now.error().error.what);
  const bool is_converted = text(**form_now, 0) == std::to_string(kForm);
  const auto converted =
      connection.run(is_converted ? "commit"
                                  : fmt::format("{}{}{}update locksley_cluster set form = {}; commit",
                                                conversion_of("locksley_payload"),
                                                conversion_of("locksley_result"), kTableOfSpans, kForm),
                     deadline);
  if (!converted) {
    return std::unexpected(
        fmt::format("its tables are of an earlier version, and cannot be converted: {}. Start this version "
                    "once as the role that "
                    "owns them",
                    converted.error().error.what));
  }
  return {};
}

// The search_path may lead to that of another store.
PgExpected<bool> has_changes(PgConnection& connection, Instant deadline) {
  const auto there = connection.run(
      "select count(*) from pg_class lists join pg_class cluster using (relnamespace) where "
      "lists.oid = to_regclass('locksley_change') and cluster.oid = to_regclass('locksley_cluster')",
      deadline);
  if (!there) return std::unexpected(there.error());
  return text(**there, 0) == "1";
}

std::expected<std::optional<std::uint64_t>, std::string> prepare_changes(PgConnection& connection) {
  const Instant deadline = now() + kSchemaPatience;
  auto there = has_changes(connection, deadline);
  if (!there) return std::unexpected(there.error().error.what);
  if (!*there) {
    const auto created = connection.run("begin;" + tables_of_changes() + "commit", deadline);
    if (!created && created.error().is_lost()) return std::unexpected(created.error().error.what);
    if (!created) {
      if (const auto undone = connection.run("rollback", deadline); !undone)
        return std::unexpected(undone.error().error.what);
      return std::nullopt;
    }
    there = has_changes(connection, deadline);
    if (!there) return std::unexpected(there.error().error.what);
    if (!*there) return std::nullopt;
  }
  const auto may = connection.run(
      "select has_table_privilege('locksley_change', 'insert') and "
      "has_table_privilege('locksley_change', 'select') and "
      "has_table_privilege('locksley_change_0', 'truncate') and "
      "has_table_privilege('locksley_change_1', 'truncate'), pg_total_relation_size('locksley_change_0')",
      deadline);
  if (!may) return std::unexpected(may.error().error.what);
  if (text(**may, 0) != "t") return std::nullopt;
  return std::stoull(text(**may, 1));
}

std::expected<void, std::string> check_promises(PgConnection& connection, config::Replication replication) {
  const auto set = connection.run(
      "select current_setting('synchronous_commit'), current_setting('synchronous_standby_names')",
      now() + kSchemaPatience);
  if (!set) return std::unexpected(set.error().error.what);
  const std::string commit = text(**set, 0);
  const bool waits_for_disk = commit != "off";
  const bool waits_for_standby = commit == "on" || commit == "remote_apply";
  if (replication == config::Replication::kRequired && !waits_for_standby) {
    return std::unexpected(fmt::format(
        "synchronous_commit is {}: a batch could be lost that was accepted. Set it to on; or say "
        "store.replication: "
        "provider, if the storage below the database is replicated, or none, if one machine's disk is enough",
        commit));
  }
  if (replication == config::Replication::kRequired && text(**set, 1).empty()) {
    return std::unexpected(
        "synchronous_standby_names is empty, so nothing is on a second machine when a batch is accepted. Set "
        "it; or say "
        "store.replication: provider, if the storage below the database is replicated, or none, if one "
        "machine's disk is "
        "enough");
  }
  if (!waits_for_disk) {
    return std::unexpected(
        "synchronous_commit is off: a batch could be lost that was accepted. Set it to on");
  }
  return {};
}

}  // namespace locksley::daemon

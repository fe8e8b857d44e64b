#include "daemon/store/postgres/schema.h"

#include <fmt/format.h>

#include <chrono>
#include <string_view>

#include "daemon/base/time.h"

namespace locksley::daemon {
namespace {

constexpr int kForm = 1;  // of the tables
constexpr auto kSchemaPatience = std::chrono::seconds(30);

std::string text(const PGresult& result, int column) { return PQgetvalue(&result, 0, column); }

}  // namespace

// Values up to 8,000 bytes lie in their row, larger ones outside; none is compressed, which would cost the server more than
// the bytes that it saves. Vacuum does not rest (cost_delay): with PostgreSQL's own setting it gave less room back than
// batches of 15 MB/s took when they were deleted, and tables grew without a bound.
const char* const kSchema = R"(
create table locksley_cluster (form int, id uuid, shards int);
create table locksley_node (node int generated always as identity primary key, name text, wire text, workers text,
  alive bool not null, beat bigint not null, committed bigint not null) with (fillfactor = 20);
create table locksley_shard (shard int primary key, owner int);
create table locksley_index (shard int, batch bigint, kind "char", part bigint, value bytea not null,
  primary key (shard, batch, kind, part)) with (toast_tuple_target = 8160, autovacuum_vacuum_scale_factor = 0.05);
create table locksley_payload (shard int, batch bigint, part bigint, value bytea not null,
  primary key (shard, batch, part)) with (toast_tuple_target = 8160, autovacuum_vacuum_scale_factor = 0.05);
create table locksley_result (shard int, batch bigint, part bigint, value bytea not null,
  primary key (shard, batch, part)) with (toast_tuple_target = 8160, autovacuum_vacuum_scale_factor = 0.05);
create table locksley_name (place "char", name bytea, value bytea not null, primary key (place, name));
alter table locksley_index alter value set storage external;
alter table locksley_payload alter value set storage external;
alter table locksley_result alter value set storage external;
alter table locksley_index set (autovacuum_vacuum_cost_delay = 0, toast.autovacuum_vacuum_cost_delay = 0,
  toast.autovacuum_vacuum_scale_factor = 0.05);
alter table locksley_payload set (autovacuum_vacuum_cost_delay = 0, toast.autovacuum_vacuum_cost_delay = 0,
  toast.autovacuum_vacuum_scale_factor = 0.05);
alter table locksley_result set (autovacuum_vacuum_cost_delay = 0, toast.autovacuum_vacuum_cost_delay = 0,
  toast.autovacuum_vacuum_scale_factor = 0.05);
insert into locksley_cluster values (1, gen_random_uuid(), 64);
insert into locksley_shard select shard, null from generate_series(0, 63) shard;
)";

std::expected<std::string, std::string> prepare_schema(Connection& connection) {
  const Instant deadline = now() + kSchemaPatience;
  for (bool is_second = false;; is_second = true) {
    const auto there = connection.run("select to_regclass('locksley_cluster') is not null", deadline);
    if (!there) return std::unexpected(there.error().error.what);
    if (text(**there, 0) == "t") break;
    const auto created = connection.run(std::string("begin;") + kSchema + "commit", deadline);
    if (!created) {
      // Another daemon may have been quicker.
      if (is_second || created.error().is_lost() || !connection.run("rollback", deadline)) {
        return std::unexpected("its tables cannot be created: " + created.error().error.what);
      }
    }
  }
  const auto form = connection.run("select form, shards, id from locksley_cluster", deadline);
  if (!form) return std::unexpected(form.error().error.what);
  if (PQntuples(form->get()) != 1 || text(**form, 0) != std::to_string(kForm) || text(**form, 1) != "64") {
    return std::unexpected(fmt::format(
        "its tables are of another version of Locksley (their form is '{}' with {} shards, this version's is "
        "'{}' with 64): use that version, or another database",
        PQntuples(form->get()) == 1 ? text(**form, 0) : "", text(**form, 1), kForm));
  }
  return text(**form, 2);
}

std::expected<void, std::string> check_promises(Connection& connection, config::Replication replication) {
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

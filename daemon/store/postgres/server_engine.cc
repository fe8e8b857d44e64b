#include "daemon/store/postgres/server_engine.h"

#include <fmt/format.h>
#include <spdlog/logger.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "daemon/base/log_line.h"
#include "daemon/store/merged_kinds.h"
#include "daemon/store/postgres/kind_copy.h"
#include "daemon/store/postgres/membership.h"
#include "daemon/store/postgres/postgres_cursor.h"
#include "daemon/store/postgres/postgres_group.h"
#include "daemon/store/postgres/row_lookup.h"
#include "daemon/store/postgres/row_place.h"
#include "daemon/store/postgres/schema.h"
#include "daemon/store/postgres/table_upkeep.h"

namespace locksley::daemon {
namespace {

using Outcome = Written::Outcome;

constexpr int kMovingShare = 2;  // of the time between two beats
// A table that another session has locked, for VACUUM FULL for example, must not hold up the beats.
constexpr auto kBeatsSettings = "set lock_timeout = '100ms'";
constexpr auto kLockedPause =
    std::chrono::seconds(10);  // guess: what uses a table is a backup, which takes minutes

constexpr auto kAttemptPause = std::chrono::milliseconds(200);  // guess: of a promotion that takes seconds

EngineError fenced() { return {EngineError::Kind::kFenced, std::string(kFencedWords)}; }

}  // namespace

std::expected<std::unique_ptr<ServerEngine>, std::string> ServerEngine::open(EngineOptions engine,
                                                                             PostgresOptions options) {
  const std::string place = postgres_place(options.url);
  const auto cannot = [&](const std::string& why) {
    return std::unexpected(fmt::format("cannot use the database {} as the store: {}", place, why));
  };
  auto primary = std::make_unique<PrimaryFinder>(options.url);
  auto connection = primary->connect("locksley", PrimaryFinder::Look::kAll);
  if (!connection) return cannot(connection.error().error.what);
  if (const auto kept = check_promises(**connection, options.replication); !kept) return cannot(kept.error());
  const auto store = prepare_schema(**connection);
  if (!store) return cannot(store.error());
  if (const auto set = (*connection)->run(kWriterSettings, now() + options.reply_time); !set) {
    return cannot(set.error().error.what);
  }
  if (options.cluster == nullptr) options.cluster = std::make_shared<ClusterBoard>();
  const auto node = join(options, *store, *primary, std::move(*connection), *engine.log);
  if (!node) return std::unexpected(fmt::format("the store {} {}", place, node.error()));
  auto after = primary->connect("locksley", PrimaryFinder::Look::kAll);
  if (!after) return cannot(after.error().error.what);
  if (const auto converted = convert_schema(**after, *node); !converted) return cannot(converted.error());
  std::unique_ptr<ServerEngine> opened(
      new ServerEngine(std::move(engine), std::move(options), std::move(primary), *store, *node));
  const ThreadRoleScope role(kStoreWriter);
  // By the same way as later: the name of the session, its settings, and a first beat.
  if (auto ready = opened->reopen(); !ready) return cannot(ready.error().what);
  return opened;
}

ServerEngine::ServerEngine(EngineOptions engine, PostgresOptions options,
                           std::unique_ptr<PrimaryFinder> primary, std::string store, std::int32_t node)
    : engine_(std::move(engine)),
      options_(std::move(options)),
      place_(postgres_place(options_.url)),
      store_(std::move(store)),
      node_(node),
      primary_(std::move(primary)),
      pool_(*primary_, session_name(store_, node) + " reads"),
      sizes_(options_.generation_bytes),
      compaction_(generations_, sizes_, node,
                  {.reply = options_.lease, .moving = options_.lease / kBeatsInLease / kMovingShare}),
      index_rewrite_(generations_, sizes_, node, options_.lease),
      nodes_(options_.lease) {
  options_.cluster->set_lease(options_.lease);
  beats_ = std::thread([this] { run_beats(); });
}

ServerEngine::~ServerEngine() {
  {
    const MutexLock lock(beat_mutex_);
    is_ending_ = true;
  }
  beat_ended_.notify_all();
  beats_.join();
  const ThreadRoleScope role(kStoreWriter);
  gate_.close();
  if (connection_ != nullptr && !is_fenced_) static_cast<void>(leave(*connection_, node_));
}

std::unique_ptr<Engine::Group> ServerEngine::new_group() { return std::make_unique<PostgresGroup>(); }

EngineDone ServerEngine::commit(Group& group, Sync sync) {
  const auto& changes = static_cast<PostgresGroup&>(group);
  if (is_fenced_) return std::unexpected(fenced());
  if (connection_ == nullptr)
    return std::unexpected(EngineError{EngineError::Kind::kNotOpen, "the database is not open"});
  if (auto renewed = renew_closed(); !renewed) return renewed;
  const std::int64_t number = ++number_;
  const Safety safety = sync == Sync::kSynced ? Safety::kSafe : Safety::kAhead;
  const bool has_ahead = std::exchange(has_ahead_, safety == Safety::kAhead);
  const Instant lock_deadline = now() + options_.reply_time;
  for (;;) {
    const Written written = write(changes, number, safety);
    if (written.outcome == Outcome::kDone) return {};
    if (written.outcome == Outcome::kFenced) {
      be_fenced();
      return std::unexpected(written.error);
    }
    const bool is_locked = written.outcome == Outcome::kLocked;
    if (written.outcome == Outcome::kRefused || (is_locked && now() >= lock_deadline))
      return fail(written.error);
    LogLine(is_locked ? "store: another session has locked a table: the group is written again"
                      : "store: the outcome of a commit is unknown, because the connection was lost: the "
                        "database is asked")
        .with("store", place_)
        .with("error", written.error.what)
        .write(*engine_.log, spdlog::level::warn);
    const auto is_written = settle(number, now() + options_.patience);
    if (!is_written) return fail(is_written.error());
    if (!is_locked) {
      LogLine(*is_written ? "store: the commit whose outcome was unknown is in the database"
                          : "store: the commit whose outcome was unknown is not in the database")
          .with("store", place_)
          .write(*engine_.log, spdlog::level::info);
    }
    if (*is_written) return {};
    // What went ahead of it may be gone with the server.
    if (has_ahead) return fail(written.error);
  }
}

EngineDone ServerEngine::write_ahead(Group& group) {
  if (is_fenced_) return std::unexpected(fenced());
  if (connection_ == nullptr)
    return std::unexpected(EngineError{EngineError::Kind::kNotOpen, "the database is not open"});
  if (auto renewed = renew_closed(); !renewed) return renewed;
  const Written written = write(static_cast<PostgresGroup&>(group), std::nullopt, Safety::kAhead);
  group.clear();
  if (written.outcome == Outcome::kDone) {
    has_ahead_ = true;
    return {};
  }
  if (written.outcome == Outcome::kFenced) be_fenced();
  return fail(written.error);
}

// What went ahead is lost with a server, but not with a connection; which of them it was is not known.
EngineDone ServerEngine::renew_closed() {
  if (has_ahead_ || !connection_->is_closed()) return {};
  LogLine("store: the database has closed the connection while it was idle: another one is made")
      .with("store", place_)
      .write(*engine_.log, spdlog::level::info);
  if (auto settled = settle(number_, now() + options_.patience); !settled) return fail(settled.error());
  return {};
}

EngineDone ServerEngine::sync() {
  PostgresGroup nothing;
  return commit(nothing, Sync::kSynced);
}

Written ServerEngine::write(const PostgresGroup& group, std::optional<std::int64_t> number, Safety safety) {
  const Instant deadline = now() + options_.reply_time;
  generations_.let_upkeep_go_first();
  const MutexLock lock(generations_.mutex);
  if (generations_.are_unknown) {
    // The beat waits for the transaction that changed them, if it is still under way.
    if (Written beaten = write_beat(*connection_, {node_, epoch_}, deadline);
        beaten.outcome != Outcome::kDone)
      return beaten;
    auto read = read_generations(*connection_, deadline);
    if (!read) return {.outcome = Outcome::kRefused, .error = read.error().error};
    generations_.value = std::move(*read);
    generations_.are_unknown = false;
  }
  Generations after = generations_.value;
  const std::vector<Generations::Span> begun = after.begin(sizes_.enough());
  const Written written =
      write_group(*connection_, {node_, epoch_}, number, {group, after, begun}, safety, deadline);
  if (written.outcome == Outcome::kDone) {
    options_.cluster->beaten(now());
    after.count(group);
    generations_.value = std::move(after);
  }
  // Whether what has begun is in the database. reconnect() reads it.
  if (written.outcome == Outcome::kUnknown) generations_.are_unknown = true;
  return written;
}

std::expected<bool, EngineError> ServerEngine::settle(std::int64_t number, Instant deadline) {
  close();
  for (;;) {
    const auto committed = reconnect(deadline);
    if (committed) {
      gate_.open();
      return *committed >= number;
    }
    if (committed.error().error.kind == EngineError::Kind::kFenced || now() + kAttemptPause >= deadline) {
      return std::unexpected(committed.error().error);
    }
    std::this_thread::sleep_for(kAttemptPause);
  }
}

PgExpected<std::int64_t> ServerEngine::reconnect(Instant deadline) {
  if (is_fenced_) return std::unexpected(PgError{fenced(), ""});
  auto opened = primary_->connect(session_name(store_, node_), PrimaryFinder::Look::kAll);
  if (!opened) return std::unexpected(opened.error());
  if (const auto set = (*opened)->run(kWriterSettings, deadline); !set) return std::unexpected(set.error());
  if (const auto kept = check_promises(**opened, options_.replication); !kept) {
    return std::unexpected(PgError::failed(kept.error()));
  }
  const auto epoch = begin_epoch(**opened, node_, deadline);
  if (!epoch) {
    if (epoch.error().error.kind == EngineError::Kind::kFenced) be_fenced();
    return std::unexpected(epoch.error());
  }
  const MutexLock lock(generations_.mutex);
  auto generations = read_generations(**opened, deadline);
  if (!generations) return std::unexpected(generations.error());
  generations_.value = std::move(*generations);
  generations_.are_unknown = false;
  options_.cluster->beaten(now());
  connection_ = std::move(*opened);
  epoch_ = epoch->number;
  return epoch->committed;
}

void ServerEngine::close() {
  connection_.reset();
  gate_.close();
  // After a promotion they would read from the wrong server.
  pool_.clear();
}

EngineDone ServerEngine::fail(EngineError error) {
  close();
  return std::unexpected(std::move(error));
}

EngineDone ServerEngine::reopen() {
  close();
  const auto committed = reconnect(now() + options_.reply_time);
  if (!committed) return std::unexpected(committed.error().error);
  has_ahead_ = false;
  gate_.open();
  return {};
}

void ServerEngine::be_fenced() {
  if (is_fenced_.exchange(true)) return;
  LogLine("store: another daemon has taken over: this one writes nothing any more")
      .with("store", place_)
      .write(*engine_.log, spdlog::level::critical);
  if (options_.on_fenced) options_.on_fenced();
}

Engine::Usage ServerEngine::usage() const { return {.bytes = sizes_.tables(), .space = std::nullopt}; }

std::expected<bool, EngineError> ServerEngine::get(Table table, std::string_view key, std::string& value) {
  return get_row(pool_, table, key, value);
}

std::unique_ptr<RowCursor> ServerEngine::scan(const RowRange& range) {
  return std::make_unique<PostgresCursor>(pool_, range);
}

std::expected<std::optional<FoundRow>, EngineError> ServerEngine::first_row(const RowRange& range) {
  if (!places_in(range.table, range.low, range.high).is_of_one_batch()) return Engine::first_row(range);
  return first_row_in_batch(pool_, range);
}

std::unique_ptr<RowCursor> ServerEngine::scan_batches(std::span<const char> kinds) {
  std::vector<std::unique_ptr<KindCopy>> begun;
  for (const char kind : kinds) begun.push_back(std::make_unique<KindCopy>(pool_, kind));
  std::vector<std::unique_ptr<RowCursor>> copies;
  for (auto& copy : begun) {
    copy->wait_first();
    copies.push_back(std::move(copy));
  }
  return std::make_unique<MergedKinds>(std::move(copies));
}

std::expected<std::uint64_t, EngineError> ServerEngine::highest_batch(std::span<const char>) {
  return read_highest_batch(pool_);
}

void ServerEngine::run_beats() {
  std::unique_ptr<PgConnection> connection;
  Instant measured_at{};
  const MutexLock lock(beat_mutex_);
  while (!is_ending_) {
    beat_ended_.wait_until(beat_mutex_, now() + options_.lease / kBeatsInLease);
    if (is_ending_ || is_fenced_) continue;
    beat_mutex_.unlock();
    if (!tend(connection, measured_at)) connection.reset();
    beat_mutex_.lock();
  }
}

PgExpected<void> ServerEngine::tend(std::unique_ptr<PgConnection>& connection, Instant& measured_at) {
  const Instant deadline = now() + options_.lease;
  if (connection == nullptr || primary_->is_outdated(*connection)) {
    auto opened = primary_->connect(session_name(store_, node_), PrimaryFinder::Look::kFirst);
    if (!opened) return std::unexpected(opened.error());
    for (const char* const settings : {kWriterSettings, kBeatsSettings}) {
      if (const auto set = (*opened)->run(settings, deadline); !set) return std::unexpected(set.error());
    }
    connection = std::move(*opened);
  }
  if (now() - options_.cluster->beaten_at() >= options_.lease / kBeatsInLease) {
    const auto beaten = connection->run("update locksley_node set beat = beat + 1 where node = $1 and alive",
                                        {Parameter::int4(node_)}, deadline);
    // A transaction that has the row is a beat, once it is committed; or another daemon's, which fences this one.
    if (!beaten && beaten.error().state != kLockNotAvailable) return std::unexpected(beaten.error());
    if (beaten && rows_changed(**beaten) != 1) {
      be_fenced();
      return {};
    }
    if (beaten) options_.cluster->beaten(now());
  }
  if (const auto looked = look_at_nodes(*connection, deadline); !looked) return looked;
  if (now() - measured_at >= kMeasurePeriod) {
    if (const auto measured = measure(*connection, deadline); !measured) return measured;
    measured_at = now();
  }
  if (const auto compacted = free_room(compacting_, compaction_, *connection); !compacted) return compacted;
  return free_room(rewriting_, index_rewrite_, *connection);
}

PgExpected<void> ServerEngine::measure(PgConnection& connection, Instant deadline) {
  const auto measured = connection.run(
      "select pg_total_relation_size('locksley_index')::bigint, "
      "pg_total_relation_size('locksley_name')::bigint, "
      "(select sum(pg_total_relation_size(relid)) from pg_partition_tree('locksley_payload'))::bigint, "
      "(select sum(pg_total_relation_size(relid)) from pg_partition_tree('locksley_result'))::bigint, "
      "(select coalesce(max(extract(epoch from clock_timestamp() - xact_start) * 1000), 0) "
      "from pg_stat_activity where datname = current_database() and backend_type = 'client backend' "
      "and pid <> pg_backend_pid())::bigint",
      Parameters{}, deadline);
  if (!measured && measured.error().state == kLockNotAvailable) return {};
  if (!measured) return std::unexpected(measured.error());
  const auto bytes = [&](int column) { return static_cast<std::uint64_t>(int8_of(**measured, 0, column)); };
  sizes_.set_index(bytes(0));
  sizes_.set_tables(bytes(1), bytes(2), bytes(3));
  options_.cluster->set_oldest_transaction(
      std::max(std::chrono::milliseconds(int8_of(**measured, 0, 4)), std::chrono::milliseconds(0)));
  return {};
}

template <class Part>
PgExpected<void> ServerEngine::free_room(Upkeep& upkeep, Part& part, PgConnection& connection) {
  if (now() < upkeep.locked_until || upkeep.is_forbidden || is_fenced_) return {};
  const auto freed = part.run(connection);
  if (!freed) return std::unexpected(freed.error());
  if (*freed == Freed::kLocked) upkeep.locked_until = now() + kLockedPause;
  if (*freed == Freed::kFenced) be_fenced();
  if (*freed == Freed::kForbidden) {
    upkeep.is_forbidden = true;
    LogLine(
        "store: this role may not empty some tables, so only vacuum gives the room of their deleted rows "
        "back")
        .with("store", place_)
        .with("grant_it", upkeep.needs)
        .write(*engine_.log, spdlog::level::warn);
  }
  return {};
}

PgExpected<void> ServerEngine::look_at_nodes(PgConnection& connection, Instant deadline) {
  const auto rows = read_nodes(connection, deadline);
  if (!rows) return std::unexpected(rows.error());
  options_.cluster->set(nodes_.see(*rows, now()));
  for (const NodeRow& row : nodes_.outdated()) {
    // Unless it lives after all.
    const auto forgotten =
        connection.run("delete from locksley_node where node = $1 and not alive and beat = $2",
                       {Parameter::int4(row.node), Parameter::int8(row.beat)}, deadline);
    if (!forgotten) return std::unexpected(forgotten.error());
  }
  return {};
}

}  // namespace locksley::daemon

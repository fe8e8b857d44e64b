#include "daemon/store/postgres/server_engine.h"

#include <fmt/format.h>
#include <spdlog/logger.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "daemon/base/log/log_line.h"
#include "daemon/store/engine/merged_kinds.h"
#include "daemon/store/postgres/kind_copy.h"
#include "daemon/store/postgres/membership.h"
#include "daemon/store/postgres/postgres_cursor.h"
#include "daemon/store/postgres/postgres_group.h"
#include "daemon/store/postgres/reading.h"
#include "daemon/store/postgres/row_lookup.h"
#include "daemon/store/postgres/row_place.h"
#include "daemon/store/postgres/schema.h"
#include "daemon/store/postgres/table_upkeep.h"

namespace locksley::daemon {
namespace {

using Outcome = Written::Outcome;

constexpr int kMostUnknown = 2;                                 // outcomes of one group
constexpr auto kAttemptPause = std::chrono::milliseconds(200);  // guess: of a promotion that takes seconds

EngineError fenced() { return {EngineError::Kind::kFenced, std::string(kFencedWords)}; }
EngineError set_back() {
  return {EngineError::Kind::kFenced, "the database has lost groups that were acknowledged"};
}

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
  auto joined = join(options, *store, *primary, std::move(*connection), *engine.log);
  if (!joined) return std::unexpected(fmt::format("the store {} {}", place, joined.error()));
  if (const auto converted = convert_schema(*joined->connection, joined->node); !converted)
    return cannot(converted.error());
  const auto lists = prepare_changes(*joined->connection);
  if (!lists) return cannot(lists.error());
  if (!*lists) {
    LogLine("store: daemons that stand by cannot follow the index, and read all of it at a takeover")
        .with("store", place)
        .with("grant_it", "INSERT, SELECT and TRUNCATE on locksley_change and its tables")
        .write(*engine.log, spdlog::level::info);
  }
  std::unique_ptr<ServerEngine> opened(new ServerEngine(std::move(engine), std::move(options),
                                                        std::move(primary), *store, joined->node, *lists));
  // It ends before the engine, because its thread uses the engine's PrimaryFinder.
  const std::unique_ptr<IndexFollower> follower = std::move(joined->follower);
  const ThreadRoleScope role(kStoreWriter);
  if (auto ready = opened->begin(std::move(joined->connection)); !ready) return cannot(ready.error().what);
  if (follower != nullptr) opened->set_copy(follower->take());
  return opened;
}

ServerEngine::ServerEngine(EngineOptions engine, PostgresOptions options,
                           std::unique_ptr<PrimaryFinder> primary, std::string store, std::int32_t node,
                           std::optional<std::uint64_t> list_bytes)
    : engine_(std::move(engine)),
      options_(std::move(options)),
      place_(postgres_place(options_.url)),
      store_(std::move(store)),
      node_(node),
      primary_(std::move(primary)),
      pool_(*primary_, session_name(store_, node) + " reads"),
      sizes_(options_.generation_bytes),
      lists_(node, options_.lease, list_bytes),
      fence_(options_.on_fenced, place_, engine_.log),
      upkeep_(std::in_place,
              ServerUpkeep::Shared{.options = options_,
                                   .place = place_,
                                   .primary = *primary_,
                                   .generations = generations_,
                                   .sizes = sizes_,
                                   .lists = lists_,
                                   .fence = fence_,
                                   .log = *engine_.log},
              session_name(store_, node_), node_) {
  options_.cluster->set_lease(options_.lease);
}

ServerEngine::~ServerEngine() {
  upkeep_.reset();
  const ThreadRoleScope role(kStoreWriter);
  gate_.close();
  if (connection_ != nullptr && !fence_.is_fenced()) static_cast<void>(leave(*connection_, node_));
}

std::unique_ptr<Engine::Group> ServerEngine::new_group() { return std::make_unique<PostgresGroup>(); }

EngineDone ServerEngine::commit(Group& group, Sync sync) {
  const auto& changes = static_cast<PostgresGroup&>(group);
  if (fence_.is_fenced()) return std::unexpected(fenced());
  if (connection_ == nullptr)
    return std::unexpected(EngineError{EngineError::Kind::kNotOpen, "the database is not open"});
  if (auto renewed = renew_closed(); !renewed) return renewed;
  const std::int64_t number = ++number_;
  const Safety safety = sync == Sync::kSynced ? Safety::kSafe : Safety::kAhead;
  const bool has_ahead = std::exchange(has_ahead_, safety == Safety::kAhead);
  const Instant lock_deadline = now() + options_.reply_time;
  for (int unknown = 0;;) {
    const Written written = write(changes, number, safety);
    if (written.outcome == Outcome::kDone) {
      done_ = number;
      return {};
    }
    if (written.outcome == Outcome::kFenced) {
      fence_.be_fenced();
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
    // A locked table is no reason to end readings of others.
    if (!is_locked) pool_.break_off();
    const auto is_written = settle(number, now() + options_.patience);
    if (!is_written) return fail(is_written.error());
    if (!is_locked) {
      LogLine(*is_written ? "store: the commit whose outcome was unknown is in the database"
                          : "store: the commit whose outcome was unknown is not in the database")
          .with("store", place_)
          .write(*engine_.log, spdlog::level::info);
    }
    if (*is_written) {
      done_ = number;
      return {};
    }
    // What went ahead of it may be gone with the server. And a server that loses the group twice
    // may lose it again and again.
    if (!is_locked) ++unknown;
    if (has_ahead || unknown == kMostUnknown) return fail(written.error);
  }
}

EngineDone ServerEngine::write_ahead(Group& group) {
  if (fence_.is_fenced()) return std::unexpected(fenced());
  if (connection_ == nullptr)
    return std::unexpected(EngineError{EngineError::Kind::kNotOpen, "the database is not open"});
  if (auto renewed = renew_closed(); !renewed) return renewed;
  const Written written = write(static_cast<PostgresGroup&>(group), std::nullopt, Safety::kAhead);
  group.clear();
  if (written.outcome == Outcome::kDone) {
    has_ahead_ = true;
    return {};
  }
  if (written.outcome == Outcome::kFenced) fence_.be_fenced();
  return fail(written.error);
}

// What went ahead is lost with a server, but not with a connection; which of them it was is not
// known.
EngineDone ServerEngine::renew_closed() {
  if (has_ahead_ || !connection_->is_closed()) return {};
  LogLine("store: the database closed an idle connection: connecting again")
      .with("store", place_)
      .write(*engine_.log, spdlog::level::info);
  pool_.break_off();
  if (auto settled = settle(number_, now() + options_.patience); !settled) return fail(settled.error());
  return {};
}

EngineDone ServerEngine::sync() {
  PostgresGroup nothing;
  return commit(nothing, Sync::kSynced);
}

Written ServerEngine::write(const PostgresGroup& group, std::optional<std::int64_t> number, Safety safety) {
  generations_.let_upkeep_go_first();
  const MutexLock lock(generations_.mutex);
  if (generations_.are_unknown) {
    // The beat waits for the transaction that changed them, if it is still under way.
    if (Written beaten = write_beat(*connection_, writer_, options_.reply_time);
        beaten.outcome != Outcome::kDone)
      return beaten;
    auto read = read_generations(*connection_, now() + options_.reply_time);
    if (!read) return {.outcome = Outcome::kRefused, .error = read.error().error};
    generations_.value = std::move(*read);
    generations_.are_unknown = false;
  }
  Generations after = generations_.value;
  const std::vector<Generations::Span> begun = after.begin(sizes_.enough());
  if (has_copy_) set_copy(nullptr);
  std::optional<ChangeList> list;
  if (number) list = lists_.list(group);
  const Instant sent = now();
  const Written written =
      write_group(*connection_, writer_, number, {group, after, begun, list}, safety, options_.reply_time);
  if (written.outcome == Outcome::kDone) {
    if (!written.warning.empty() && warnings_.open(now())) {
      LogLine("store: the database warns")
          .with("store", place_)
          .with("warning", written.warning)
          .with("unlogged", warnings_.held_back())
          .write(*engine_.log, spdlog::level::warn);
    }
    options_.cluster->beaten(sent);
    after.count(group);
    generations_.value = std::move(after);
  }
  // Whether the begun generations are in the database. reconnect() reads it.
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
  if (fence_.is_fenced()) return std::unexpected(PgError{fenced(), ""});
  auto opened = primary_->connect(session_name(store_, node_), PrimaryFinder::Look::kAll);
  if (!opened) return std::unexpected(opened.error());
  if (const auto set = (*opened)->run(kWriterSettings, deadline); !set) return std::unexpected(set.error());
  if (const auto kept = check_promises(**opened, options_.replication); !kept) {
    return std::unexpected(PgError::failed(kept.error()));
  }
  return begin_epoch_over(std::move(*opened), deadline);
}

PgExpected<std::int64_t> ServerEngine::begin_epoch_over(std::unique_ptr<PgConnection> opened,
                                                        Instant deadline) {
  const Instant sent = now();
  const auto epoch = begin_epoch(*opened, node_, deadline);
  if (!epoch) {
    if (epoch.error().error.kind == EngineError::Kind::kFenced) fence_.be_fenced();
    return std::unexpected(epoch.error());
  }
  // A server that was killed, or a replica that lagged behind when it was promoted.
  if (epoch->committed < done_) {
    fence_.be_set_back(done_, epoch->committed);
    return std::unexpected(PgError{set_back(), ""});
  }
  options_.cluster->beaten(sent);
  const MutexLock lock(generations_.mutex);
  auto generations = read_generations(*opened, deadline);
  if (!generations) return std::unexpected(generations.error());
  generations_.value = std::move(*generations);
  generations_.are_unknown = false;
  connection_ = std::move(opened);
  writer_ = {.node = node_, .epoch = epoch->number, .may_send_ahead = epoch->may_send_ahead};
  return epoch->committed;
}

void ServerEngine::close() {
  connection_.reset();
  gate_.close();
  // After a promotion they would read from the wrong server.
  pool_.clear();
}

EngineDone ServerEngine::fail(EngineError error) {
  pool_.break_off();
  close();
  return std::unexpected(std::move(error));
}

EngineDone ServerEngine::begin(std::unique_ptr<PgConnection> adopted) {
  const Instant deadline = now() + options_.reply_time;
  const auto named = adopted->run("select set_config('application_name', $1, false)",
                                  {Parameter::text(session_name(store_, node_))}, deadline);
  // It may be lost since.
  if (!named || primary_->is_outdated(*adopted) || !begin_epoch_over(std::move(adopted), deadline))
    return reopen();
  gate_.open();
  return {};
}

EngineDone ServerEngine::reopen() {
  pool_.break_off();
  close();
  const auto committed = reconnect(now() + options_.reply_time);
  if (!committed) return std::unexpected(committed.error().error);
  has_ahead_ = false;
  gate_.open();
  return {};
}

Engine::Usage ServerEngine::usage() const { return {.bytes = sizes_.tables(), .space = std::nullopt}; }

std::expected<bool, EngineError> ServerEngine::get(Table table, std::string_view key, std::string& value) {
  return get_row(pool_, table, key, value, kReadPatience);
}

std::expected<RowValues, EngineError> ServerEngine::get_within(Table table, std::span<const Key> keys,
                                                               std::chrono::milliseconds patience,
                                                               ReadingConnection connection) {
  return get_rows(pool_, table, keys, patience, connection);
}

std::unique_ptr<RowCursor> ServerEngine::scan(const RowRange& range) {
  return std::make_unique<PostgresCursor>(pool_, range);
}

std::expected<std::optional<FoundRow>, EngineError> ServerEngine::first_row(const RowRange& range) {
  return first_row_within(range, kReadPatience, {});
}

std::expected<std::optional<FoundRow>, EngineError> ServerEngine::first_row_within(
    const RowRange& range, std::chrono::milliseconds patience, const std::stop_token& stop) {
  if (!places_in(range.table, range.low, range.high).is_of_one_batch()) return Engine::first_row(range);
  return first_row_in_batch(pool_, range, patience, stop);
}

void ServerEngine::set_copy(std::unique_ptr<IndexCopy> copy) {
  const MutexLock lock(copy_mutex_);
  copy_ = std::move(copy);
  has_copy_ = copy_ != nullptr;
}

std::unique_ptr<IndexCopy> ServerEngine::take_copy() {
  const MutexLock lock(copy_mutex_);
  has_copy_ = false;
  return std::move(copy_);
}

std::unique_ptr<RowCursor> ServerEngine::scan_batches(std::span<const char> kinds) {
  if (auto copy = take_copy(); copy != nullptr && std::ranges::equal(copy->kinds(), kinds))
    return IndexCopy::read(std::move(copy));
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

}  // namespace locksley::daemon

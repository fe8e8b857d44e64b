#include "daemon/store/postgres/membership.h"

#include <fmt/format.h>
#include <spdlog/logger.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "daemon/base/log/log_line.h"
#include "daemon/base/log/rate_gate.h"
#include "daemon/base/time.h"
#include "daemon/store/cluster_board.h"
#include "daemon/store/postgres/group_writer.h"
#include "daemon/store/postgres/node_watch.h"
#include "daemon/store/postgres/schema.h"

namespace locksley::daemon {
namespace {

constexpr auto kJoinPatience = std::chrono::seconds(10);
// How long a fencing waits for a transaction of the daemon that it fences, before it ends that
// daemon's sessions.
constexpr auto kLockTimeout = "500ms";
constexpr int kLooksInLease = 10;

// From a row that stands by to one that is active. On the stack of join().
class Joining {
 public:
  Joining(const PostgresOptions& options, const std::string& store, PrimaryFinder& primary,
          std::unique_ptr<PgConnection> connection, spdlog::logger& log)
      : options_(options),
        store_(store),
        primary_(primary),
        cluster_(*options.cluster),
        log_(log),
        connection_(std::move(connection)),
        nodes_(options.lease) {}

  std::expected<Joined, std::string> run();

 private:
  // The row of another daemon, with the beat that it had `since`.
  struct Watched {
    std::int32_t node;
    std::int64_t beat;
    Instant since;
  };
  struct Look {
    bool is_own_alive = false;
    std::optional<NodeRow> active;  // another daemon
  };
  enum class Adoption : std::uint8_t {
    kDone,
    kTooLate,  // another daemon was quicker, or the former one wrote again
    kLocked,   // a session of the former daemon holds its row
  };

  PgExpected<Result> query(const std::string& sql, const Parameters& parameters = {}) {
    return connection_->run(sql, parameters, now() + kJoinPatience);
  }
  PgExpected<void> connect();
  PgExpected<void> enroll();
  // The row goes, as far as the database can be reached.
  void withdraw();
  // Beats, and reads all rows. Makes a row for this daemon, if it has none.
  PgExpected<Look> beat_and_read_nodes();
  // Whether it was silent for a lease.
  bool is_silent(const NodeRow& active);
  PgExpected<Adoption> adopt(const std::optional<NodeRow>& former);
  // In a transaction, which it leaves open: the next step of adopt() after an error or a result
  // that ends it.
  PgExpected<Adoption> give_up(Adoption why);
  PgExpected<void> end_sessions_of(std::int32_t node);
  // Looks, and takes over if it is time. Whether this daemon is the active one.
  PgExpected<bool> advance();
  // False: this daemon ends.
  bool pause();
  void tell_of(const NodeRow& active);
  // From now on, if this daemon stands by.
  void follow();
  std::string in_use_by(const NodeRow& active) const;

  const PostgresOptions& options_;
  const std::string& store_;
  PrimaryFinder& primary_;
  ClusterBoard& cluster_;
  spdlog::logger& log_;
  std::unique_ptr<PgConnection> connection_;  // null: it was lost
  std::int32_t own_ = 0;                      // 0: there is no row
  NodeWatch nodes_;
  std::optional<Watched> watched_;
  Instant looked_at_{};                   // before the last look was sent
  std::optional<std::string> is_in_use_;  // by a daemon that has just written; only without stand_by
  RateGate ended_sessions_{std::chrono::minutes(1)};  // their lines in the log
  std::int32_t told_of_ = 0;                          // the active daemon of which the log has a line
  std::unique_ptr<IndexFollower> follower_;
  std::int32_t follows_as_ = 0;  // the own row that follower_ knows; 0: there is none
};

std::expected<Joined, std::string> Joining::run() {
  bool was_enrolled = false;
  bool has_failed = false;
  for (;;) {
    const auto is_active = advance();
    if (is_active && *is_active) return Joined{own_, std::move(follower_), std::move(connection_)};
    if (is_in_use_) {
      withdraw();
      return std::unexpected(*is_in_use_);
    }
    if (!is_active) {
      const std::string& why = is_active.error().error.what;
      // At the start an error is most likely one of the configuration.
      if (!was_enrolled || !options_.stand_by) return std::unexpected(why);
      if (!has_failed) {
        LogLine("store: the database cannot be reached: whether the active daemon lives is unknown")
            .with("error", why)
            .write(log_, spdlog::level::warn);
      }
      connection_.reset();
      watched_.reset();
      cluster_.set_trouble(why);
    }
    has_failed = !is_active;
    was_enrolled = was_enrolled || own_ != 0;
    if (pause()) continue;
    withdraw();
    return std::unexpected("is used by another daemon, and this one was told to end");
  }
}

void Joining::withdraw() {
  if (connection_ == nullptr || own_ == 0) return;
  static_cast<void>(query("delete from locksley_node where node = $1 and committed = -1 and not alive",
                          {Parameter::int4(own_)}));
}

PgExpected<bool> Joining::advance() {
  if (connection_ == nullptr) {
    if (const auto connected = connect(); !connected) return std::unexpected(connected.error());
  }
  const auto seen = beat_and_read_nodes();
  if (!seen) return std::unexpected(seen.error());
  // An adoption whose outcome was unknown.
  if (seen->is_own_alive) return true;
  if (seen->active) {
    tell_of(*seen->active);
    follow();
    if (!is_silent(*seen->active)) return false;
  }
  const auto adopted = adopt(seen->active);
  if (!adopted) return std::unexpected(adopted.error());
  if (*adopted == Adoption::kLocked) {
    // A daemon that is paused in a transaction holds its row, and so does one whose link is too
    // slow for its writes.
    if (ended_sessions_.open(now())) {
      LogLine(
          "store: the active daemon is silent, and a session of it has held its row in the database for as "
          "long: its sessions are ended, and what they have not committed is rolled back")
          .with("active", seen->active->node)
          .with("name", seen->active->name)
          .with("unlogged", ended_sessions_.held_back())
          .write(log_, spdlog::level::warn);
    }
    if (const auto ended = end_sessions_of(seen->active->node); !ended) return std::unexpected(ended.error());
  }
  if (*adopted != Adoption::kDone) return false;
  // Its readings hold locks and old rows for as long as the server takes them for open, which may
  // be hours.
  if (seen->active) static_cast<void>(end_sessions_of(seen->active->node));
  // So that the board says at once who is active now.
  const auto rows = read_nodes(*connection_, now() + kJoinPatience);
  if (rows) cluster_.set(nodes_.see(*rows, now()));
  return true;
}

PgExpected<void> Joining::connect() {
  auto opened = primary_.connect("locksley", PrimaryFinder::Look::kAll);
  if (!opened) return std::unexpected(opened.error());
  if (const auto kept = check_promises(**opened, options_.replication); !kept) {
    return std::unexpected(PgError::failed(kept.error()));
  }
  if (const auto set = (*opened)->run(kWriterSettings, now() + kJoinPatience); !set) {
    return std::unexpected(set.error());
  }
  connection_ = std::move(*opened);
  return {};
}

PgExpected<void> Joining::enroll() {
  const auto made = query(
      "insert into locksley_node (name, wire, workers, alive, beat, committed) values ($1, $2, $3, false, 0, "
      "-1) returning node",
      {Parameter::text(options_.name), Parameter::text(options_.wire), Parameter::text(options_.workers)});
  if (!made) return std::unexpected(made.error());
  own_ = int4_of(**made, 0, 0);
  return {};
}

PgExpected<Joining::Look> Joining::beat_and_read_nodes() {
  looked_at_ = now();
  if (own_ == 0) {
    if (const auto enrolled = enroll(); !enrolled) return std::unexpected(enrolled.error());
  }
  const auto beaten =
      query("update locksley_node set beat = beat + 1 where node = $1 and committed = -1 and not alive",
            {Parameter::int4(own_)});
  if (!beaten) return std::unexpected(beaten.error());
  const auto rows = read_nodes(*connection_, now() + kJoinPatience);
  if (!rows) return std::unexpected(rows.error());
  // A database that takes so long says nothing of another daemon's silence.
  if (now() - looked_at_ > options_.lease / 2) watched_.reset();
  Look seen;
  for (const NodeRow& row : *rows) {
    if (row.node == own_) {
      seen.is_own_alive = row.is_alive;
    } else if (row.is_alive) {
      seen.active = row;
    }
  }
  // The row was taken for one of a daemon that has gone: this daemon was paused for very long. It
  // gets another row.
  if (rows_changed(**beaten) != 1 && !seen.is_own_alive) own_ = 0;
  cluster_.set(nodes_.see(*rows, now()));
  return seen;
}

bool Joining::is_silent(const NodeRow& active) {
  const bool is_same = watched_ && watched_->node == active.node;
  if (is_same && watched_->beat == active.beat) return looked_at_ - watched_->since >= options_.lease;
  if (is_same && !options_.stand_by) is_in_use_ = in_use_by(active);
  watched_ = Watched{.node = active.node, .beat = active.beat, .since = now()};
  return false;
}

PgExpected<Joining::Adoption> Joining::give_up(Adoption why) {
  if (const auto undone = query("rollback"); !undone) return std::unexpected(undone.error());
  return why;
}

// In one transaction.
PgExpected<Joining::Adoption> Joining::adopt(const std::optional<NodeRow>& former) {
  if (own_ == 0) return Adoption::kTooLate;
  if (const auto begun = query("begin"); !begun) return std::unexpected(begun.error());
  if (const auto set = query(fmt::format("set local lock_timeout = '{}'", kLockTimeout)); !set) {
    return std::unexpected(set.error());
  }
  // Of two that do it at once, one waits here.
  if (const auto locked = query("select 1 from locksley_cluster for update"); !locked) {
    if (locked.error().is_lost()) return std::unexpected(locked.error());
    return give_up(Adoption::kTooLate);
  }
  if (former) {
    const auto fenced =
        query("update locksley_node set alive = false where node = $1 and alive and beat = $2",
              {Parameter::int4(former->node), Parameter::int8(former->beat)});
    if (!fenced && fenced.error().is_lost()) return std::unexpected(fenced.error());
    if (!fenced) {
      return give_up(fenced.error().state == kLockNotAvailable ? Adoption::kLocked : Adoption::kTooLate);
    }
    if (rows_changed(**fenced) != 1) return give_up(Adoption::kTooLate);
  }
  const auto others = query("select count(*) from locksley_node where alive");
  if (!others) return std::unexpected(others.error());
  if (int8_of(**others, 0, 0) != 0) return give_up(Adoption::kTooLate);
  const auto risen = query(
      "update locksley_node set alive = true, committed = 0, beat = beat + 1 where node = $1 and committed = "
      "-1",
      {Parameter::int4(own_)});
  if (!risen) return std::unexpected(risen.error());
  if (rows_changed(**risen) != 1) return give_up(Adoption::kTooLate);
  if (const auto taken = query("update locksley_shard set owner = $1", {Parameter::int4(own_)}); !taken) {
    return std::unexpected(taken.error());
  }
  connection_->take_warning();
  const auto committed = query("commit");
  if (!committed) return std::unexpected(committed.error());
  // The wait for the synchronous standby was cancelled: whether it has the row is unknown.
  if (const std::string warning = connection_->take_warning(); !warning.empty()) {
    return std::unexpected(PgError::failed(warning));
  }
  if (former) {
    cluster_.count_fencing();
    LogLine(
        "store: the active daemon was silent: this one takes over, and that one can write nothing any more")
        .with("node", own_)
        .with("former", former->node)
        .with("name", former->name)
        .write(log_, spdlog::level::warn);
  }
  return Adoption::kDone;
}

PgExpected<void> Joining::end_sessions_of(std::int32_t node) {
  const auto ended = query(
      "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and "
      "application_name in ($1, $1 || ' reads')",
      {Parameter::text(session_name(store_, node))});
  if (!ended) return std::unexpected(ended.error());
  return {};
}

bool Joining::pause() {
  const auto pause = std::chrono::duration_cast<std::chrono::milliseconds>(options_.lease / kLooksInLease);
  if (options_.stand_by) return options_.stand_by(pause);
  std::this_thread::sleep_for(pause);
  return true;
}

void Joining::tell_of(const NodeRow& active) {
  if (!options_.stand_by || std::exchange(told_of_, active.node) == active.node) return;
  LogLine("store: another daemon is active: this one stands by")
      .with("node", own_)
      .with("active", active.node)
      .with("name", active.name)
      .with("wire", active.wire)
      .write(log_, spdlog::level::info);
}

void Joining::follow() {
  if (!options_.stand_by || options_.followed_kinds.empty()) return;
  if (std::exchange(follows_as_, own_) == own_) return;
  follower_.reset();
  if (own_ == 0) return;
  follower_ = std::make_unique<IndexFollower>(primary_, own_, session_name(store_, own_) + " follows",
                                              options_.followed_kinds, cluster_, log_);
}

std::string Joining::in_use_by(const NodeRow& active) const {
  return fmt::format(
      "is in use by another daemon ({}, node {}), which has just written to it: two cannot share one. Stop "
      "that daemon, or start this one when that one has been silent for {:g} s",
      active.name, active.node, static_cast<double>(options_.lease.count()) / 1000);
}

}  // namespace

PgExpected<std::vector<NodeRow>> read_nodes(PgConnection& connection, Instant deadline) {
  const auto read = connection.run(
      "select node, coalesce(name, ''), coalesce(wire, ''), coalesce(workers, ''), alive, committed, beat, "
      "(select count(*) from locksley_shard where owner = node) from locksley_node order by node",
      Parameters{}, deadline);
  if (!read) return std::unexpected(read.error());
  const PGresult& table = **read;
  std::vector<NodeRow> rows(static_cast<std::size_t>(PQntuples(&table)));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const int row = static_cast<int>(i);
    rows[i] = {.node = int4_of(table, row, 0),
               .name = std::string(bytes_of(table, row, 1)),
               .wire = std::string(bytes_of(table, row, 2)),
               .workers = std::string(bytes_of(table, row, 3)),
               .is_alive = bytes_of(table, row, 4).front() != 0,
               .committed = int8_of(table, row, 5),
               .beat = int8_of(table, row, 6),
               .shards = static_cast<std::uint32_t>(int8_of(table, row, 7))};
  }
  return rows;
}

std::string session_name(const std::string& store, std::int32_t node) {
  return fmt::format("locksley {}/{}", store.substr(0, 8), node);
}

std::expected<Joined, std::string> join(const PostgresOptions& options, const std::string& store,
                                        PrimaryFinder& primary, std::unique_ptr<PgConnection> connection,
                                        spdlog::logger& log) {
  options.cluster->set_role(ClusterBoard::Role::kStandby);
  auto joined = Joining(options, store, primary, std::move(connection), log).run();
  if (!joined) return joined;
  options.cluster->set_role(ClusterBoard::Role::kLoading);
  options.cluster->count_adoption();
  return joined;
}

PgExpected<void> leave(PgConnection& connection, std::int32_t node) {
  const Instant deadline = now() + kJoinPatience;
  const auto left = connection.run(
      fmt::format("begin; update locksley_shard set owner = null where owner = {0}; update locksley_node set "
                  "alive = false where node = {0}; commit",
                  node),
      deadline);
  if (!left) return std::unexpected(left.error());
  return {};
}

}  // namespace locksley::daemon

#include "daemon/store/postgres/server_upkeep.h"

#include <spdlog/logger.h>

#include <algorithm>
#include <utility>

#include "daemon/base/log/log_line.h"
#include "daemon/store/cluster_board.h"
#include "daemon/store/postgres/group_writer.h"
#include "daemon/store/postgres/membership.h"
#include "daemon/store/postgres/table_upkeep.h"

namespace locksley::daemon {
namespace {

// A table that another session has locked, for VACUUM FULL for example, must not hold up the beats.
constexpr auto kBeatsSettings = "set lock_timeout = '100ms'";
constexpr auto kLockedPause =
    std::chrono::seconds(10);  // guess: what uses a table is a backup, which takes minutes

}  // namespace

ServerUpkeep::ServerUpkeep(Shared shared, std::string session, std::int32_t node)
    : shared_(shared),
      lease_(shared.options.lease),
      session_(std::move(session)),
      node_(node),
      nodes_(lease_),
      compaction_(shared.generations, shared.sizes, node,
                  {.reply = lease_, .moving = lease_ / kBeatsInLease / kMovingShare}),
      index_rewrite_(shared.generations, shared.sizes, node, lease_),
      thread_([this] { run(); }) {}

ServerUpkeep::~ServerUpkeep() {
  {
    const MutexLock lock(mutex_);
    is_ending_ = true;
  }
  ended_.notify_all();
  thread_.join();
}

void ServerUpkeep::run() {
  // At once: daemons that are killed soon, one after the other, do not leave more and more rows.
  if (!check_nodes()) connection_.reset();
  const MutexLock lock(mutex_);
  bool at_once = false;
  while (!is_ending_) {
    if (!std::exchange(at_once, false)) ended_.wait_until(mutex_, now() + lease_ / kBeatsInLease);
    if (is_ending_ || shared_.fence.is_fenced()) continue;
    mutex_.unlock();
    const bool was_connected = connection_ != nullptr;
    const bool succeeded = run_due().has_value();
    if (!succeeded) connection_.reset();
    // Over a new connection: after the process was paused, this tells it whether it may still
    // serve.
    at_once = was_connected && !succeeded;
    look_ = succeeded ? PrimaryFinder::Look::kFirst : PrimaryFinder::Look::kAll;
    mutex_.lock();
  }
}

PgExpected<void> ServerUpkeep::run_due() {
  const Instant deadline = now() + lease_;
  if (auto connected = connect(deadline); !connected) return connected;
  if (now() - counted_at_ >= kMeasurePeriod) {
    if (auto counted = count_standbys(deadline); !counted) return counted;
    counted_at_ = now();
  }
  if (now() - shared_.options.cluster->beaten_at() >= lease_ / kBeatsInLease) {
    if (auto beaten = beat(deadline); !beaten || shared_.fence.is_fenced()) return beaten;
  }
  if (auto looked = look_at_nodes(deadline); !looked) return looked;
  if (now() - measured_at_ >= kMeasurePeriod) {
    if (auto measured = measure(deadline); !measured) return measured;
    measured_at_ = now();
  }
  if (auto compacted = free_room(compacting_, compaction_); !compacted) return compacted;
  if (auto emptied = free_room(listing_, shared_.lists); !emptied) return emptied;
  return free_room(rewriting_, index_rewrite_);
}

PgExpected<void> ServerUpkeep::check_nodes() {
  const Instant deadline = now() + lease_;
  if (auto connected = connect(deadline); !connected) return connected;
  return look_at_nodes(deadline);
}

PgExpected<void> ServerUpkeep::connect(Instant deadline) {
  if (connection_ != nullptr && !shared_.primary.is_outdated(*connection_)) return {};
  auto opened = shared_.primary.connect(session_, look_);
  if (!opened) return std::unexpected(opened.error());
  for (const char* const settings : {kWriterSettings, kBeatsSettings}) {
    if (const auto set = (*opened)->run(settings, deadline); !set) return std::unexpected(set.error());
  }
  connection_ = std::move(*opened);
  return {};
}

PgExpected<void> ServerUpkeep::beat(Instant deadline) {
  const Instant sent = now();
  const auto beaten =
      connection_->run_committed("update locksley_node set beat = beat + 1 where node = $1 and alive",
                                 {Parameter::int4(node_)}, deadline);
  // A transaction that has the row is a beat, once it is committed; or another daemon's, which
  // fences this one.
  if (!beaten && beaten.error().state == kLockNotAvailable) return {};
  if (!beaten) return std::unexpected(beaten.error());
  if (rows_changed(**beaten) != 1) {
    shared_.fence.be_fenced();
  } else if (connection_->take_warning().empty()) {
    shared_.options.cluster->beaten(sent);
  }  // else its wait for the synchronous standby was cancelled, and perhaps no other server has it
  return {};
}

PgExpected<void> ServerUpkeep::look_at_nodes(Instant deadline) {
  const auto rows = read_nodes(*connection_, deadline);
  if (!rows) return std::unexpected(rows.error());
  ClusterView view = nodes_.see(*rows, now());
  shared_.lists.set_wanted(std::ranges::any_of(
      view.nodes, [](const ClusterNode& node) { return node.state == ClusterNode::State::kStandby; }));
  shared_.options.cluster->set(std::move(view));
  for (const NodeRow& row : nodes_.outdated()) {
    // Unless it lives after all.
    const auto forgotten =
        connection_->run("delete from locksley_node where node = $1 and not alive and beat = $2",
                         {Parameter::int4(row.node), Parameter::int8(row.beat)}, deadline);
    if (!forgotten) return std::unexpected(forgotten.error());
  }
  return {};
}

PgExpected<void> ServerUpkeep::count_standbys(Instant deadline) {
  const auto counted = connection_->run(
      "select case when pg_has_role('pg_read_all_stats', 'usage') "
      "then (select count(*) from pg_stat_replication where sync_state in ('sync', 'quorum')) else -1 "
      "end::bigint",
      Parameters{}, deadline);
  if (!counted) return std::unexpected(counted.error());
  const std::int64_t count = int8_of(**counted, 0, 0);
  shared_.options.cluster->set_synchronous_standbys(
      count < 0 ? std::nullopt : std::optional(static_cast<std::uint64_t>(count)));
  return {};
}

PgExpected<void> ServerUpkeep::measure(Instant deadline) {
  const auto measured = connection_->run(
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
  shared_.sizes.set_index(bytes(0));
  shared_.sizes.set_tables(bytes(1), bytes(2), bytes(3));
  shared_.options.cluster->set_oldest_transaction(
      std::max(std::chrono::milliseconds(int8_of(**measured, 0, 4)), std::chrono::milliseconds(0)));
  return {};
}

template <class Part>
PgExpected<void> ServerUpkeep::free_room(Way& way, Part& part) {
  if (now() < way.locked_until || way.is_forbidden || shared_.fence.is_fenced()) return {};
  const auto freed = part.run(*connection_);
  if (!freed) return std::unexpected(freed.error());
  if (*freed == Freed::kLocked) way.locked_until = now() + kLockedPause;
  if (*freed == Freed::kFenced) shared_.fence.be_fenced();
  if (*freed == Freed::kForbidden) {
    way.is_forbidden = true;
    LogLine(
        "store: this role may not empty some tables, so only vacuum gives the room of their deleted rows "
        "back")
        .with("store", shared_.place)
        .with("grant_it", way.needs)
        .write(shared_.log, spdlog::level::warn);
  }
  return {};
}

}  // namespace locksley::daemon

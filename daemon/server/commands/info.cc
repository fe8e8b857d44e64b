#include "daemon/server/commands/info.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "core/lane/lane_view.h"
#include "daemon/base/time.h"
#include "daemon/server/state/inspection.h"
#include "daemon/server/state/server_state.h"
#include "daemon/store/cluster_board.h"
#include "daemon/store/store.h"
#include "proto/hello.h"
#include "proto/text.h"

namespace locksley::daemon {

namespace {

class Text {
 public:
  explicit Text(std::span<const std::string_view> sections) : sections_(sections) {}

  // Begins a section. False if it is not wanted; else its lines follow.
  bool section(std::string_view name) {
    return begin(name, sections_.empty() || is_named(name) || is_named("default"));
  }
  // The same for a section that is written only if it is named.
  bool section_on_demand(std::string_view name) { return begin(name, is_named(name)); }

  template <class Value>
  void line(std::string_view key, const Value& value) {
    text_ += fmt::format("{}:{}\r\n", key, value);
  }

  std::string take() && { return std::move(text_); }

 private:
  bool is_named(std::string_view name) const {
    return std::ranges::any_of(sections_, [name](std::string_view section) {
      return proto::equals_ignoring_case(section, name) || proto::equals_ignoring_case(section, "all") ||
             proto::equals_ignoring_case(section, "everything");
    });
  }
  bool begin(std::string_view name, bool wanted) {
    if (wanted) text_ += fmt::format("{}# {}\r\n", text_.empty() ? "" : "\r\n", name);
    return wanted;
  }

  std::span<const std::string_view> sections_;
  std::string text_;
};

// Jobs that ended since the daemon started.
std::uint64_t ended_jobs(const ServerState& state) LOCKSLEY_REQUIRES(kIoThread) {
  std::uint64_t sum = 0;
  for (const auto& [name, entry] : state.handlers().entries()) {
    for (const auto& count : entry.handler.stats.jobs) {
      // [handler-stats] relaxed: for display.
      sum += count.load(std::memory_order_relaxed);
    }
  }
  return sum;
}

std::string groups_of(const User& user) {
  std::string text;
  for (const auto group :
       {proto::CommandGroup::kSubmit, proto::CommandGroup::kRead, proto::CommandGroup::kControl,
        proto::CommandGroup::kAdmin, proto::CommandGroup::kWork}) {
    if (user.may(group)) text += fmt::format("{}{}", text.empty() ? "" : ",", proto::to_string(group));
  }
  return text;
}

// A line for each lane of a handler that the user may use: for an admin with the sums of the lane,
// for others with their own.
void put_lanes(ServerState& state, const User& user, Text& text) LOCKSLEY_REQUIRES(kIoThread) {
  std::set<const Lane*> in_use;
  for (const auto& [name, entry] : state.handlers().entries()) {
    if (user.may_use(name)) in_use.insert(&entry.lane);
  }
  for (const Lane* lane : state.lanes()) {
    const LaneSeen seen = lane_seen_by(*lane, user);
    // A lane whose handlers were removed is shown while it has batches.
    if (!in_use.contains(lane) && (!user.is_admin() || seen.batches == 0)) continue;
    text.line("lane_" + lane->name(),
              fmt::format("slots={},running={},queued={},batches={}", slots_of(state, *lane), seen.running,
                          seen.queued, seen.batches));
  }
}

std::string limit_text(std::uint64_t limit) {
  return limit == Account::kNoLimit ? std::string("none") : std::to_string(limit);
}

// Writes what an account holds and may hold: a line for each resource.
void put_account(const Account& account, Text& text) {
  const auto line = [&text](std::string_view name, std::uint64_t used, std::uint64_t limit) {
    text.line(fmt::format("account_{}", name), fmt::format("used={},limit={}", used, limit_text(limit)));
  };
  for (const ResourceName& each : kResourceNames) {
    line(each.name, account.used(each.resource), account.most_alone(each.resource));
  }
  line(kFailureName, account.failures().bytes(), account.failures().limit());
  line(kResultName, account.results().bytes(), account.results().limit());
}

void put_store(const ServerState& state, const User& user, Text& text) {
  if (state.role() != ClusterBoard::Role::kActive) return text.line("store", "standby");
  const Store* const store = state.store();
  const auto is_failing = [store] { return !store->error().empty(); };
  text.line("store", store == nullptr ? "memory" : is_failing() ? "failing" : "ready");
  if (store == nullptr || !user.is_admin()) return;
  const Store::Stats stats = store->stats();
  text.line("store_bytes", stats.disk_bytes);
  text.line("store_errors", stats.errors);
}

// As Redis has it: a daemon that stands by is a slave, and the master is where its clients are
// served.
void put_role(const ServerState& state, Text& text) {
  if (state.role() == ClusterBoard::Role::kActive) {
    text.line("role", "master");
    std::size_t standbys = 0;
    if (state.cluster() != nullptr) {
      const ClusterBoard::View view = state.cluster()->get();
      standbys = static_cast<std::size_t>(
          std::ranges::count(view->nodes, ClusterNode::State::kStandby, &ClusterNode::state));
    }
    text.line("connected_slaves", standbys);
    return;
  }
  text.line("role", "slave");
  const ClusterBoard::View view = state.cluster()->get();
  // The view may be out of date, and still show this daemon as the active one.
  const bool is_known = state.role() != ClusterBoard::Role::kUnconfirmed;
  const ClusterNode* const active = is_known ? view->active() : nullptr;
  const std::string wire = active == nullptr ? "" : active->wire;
  const std::size_t colon = wire.rfind(':');
  text.line("master_host", colon == std::string::npos ? wire : wire.substr(0, colon));
  text.line("master_port", colon == std::string::npos ? "0" : wire.substr(colon + 1));
  text.line("master_link_status", active != nullptr && !view->trouble ? "up" : "down");
  text.line("connected_slaves", 0);
}

void put_server(const ServerState& state, Text& text) LOCKSLEY_REQUIRES(kIoThread) {
  const auto uptime = now() - state.started_at();
  text.line("redis_version", proto::kRedisVersion);
  text.line("redis_mode", "standalone");
  text.line("locksley_version", state.version());
  text.line("process_id", ::getpid());
  text.line("tcp_port", state.port());
  text.line("uptime_in_seconds", std::chrono::duration_cast<std::chrono::seconds>(uptime).count());
}

void put_clients(ServerState& state, const User& user, Text& text) LOCKSLEY_REQUIRES(kIoThread) {
  const ServerStats& stats = state.stats();
  const bool all = user.is_admin();
  const Account& own = user.tenant().account;
  text.line("connected_clients", all ? stats.connections.get() : own.used(Resource::kConnections));
  text.line("maxclients", state.config().limits.max_clients);
  if (all) {
    text.line("blocked_clients", stats.blocked.get());
    text.line("pubsub_clients", stats.subscribers.get());
  }
}

void put_stats(const ServerStats& stats, Text& text) {
  std::uint64_t commands = stats.unknown_commands.get();
  for (const OwnedCounter& count : stats.commands) commands += count.get();
  std::uint64_t errors = 0;
  for (const OwnedCounter& count : stats.command_errors) errors += count.get();
  text.line("total_connections_received", stats.connections_accepted.get());
  text.line("total_commands_processed", commands);
  text.line("total_net_input_bytes", stats.received_bytes.get());
  text.line("total_net_output_bytes", stats.sent_bytes.get());
  text.line("rejected_connections", stats.connections_refused.get());
  text.line("total_error_replies", errors);
}

void put_daemon(ServerState& state, const User& user, Text& text) LOCKSLEY_REQUIRES(kIoThread) {
  const ServerStats& stats = state.stats();
  const bool all = user.is_admin();
  const Account& own = user.tenant().account;
  text.line("workers", state.pool().workers());
  text.line("handlers", std::ranges::count_if(state.handlers().entries(), [&user](const auto& item) {
              return user.may_use(item.first);
            }));
  text.line("active_batches", all ? stats.active_batches.get() : own.used(Resource::kBatches));
  if (all) text.line("retained_batches", stats.retained_batches.get());
  if (all) text.line("ended_jobs", ended_jobs(state));
  text.line("queued_jobs", all ? stats.queued_jobs.get() : own.used(Resource::kQueuedJobs));
  text.line("queued_bytes", all ? stats.queued_bytes.get() : own.used(Resource::kQueuedBytes));
  const auto& limits = state.config().limits;
  text.line("max_queued_jobs", std::min(limits.max_queued_jobs, own.limit(Resource::kQueuedJobs)));
  text.line("max_queued_bytes", std::min(limits.max_queued_bytes.count, own.limit(Resource::kQueuedBytes)));
  text.line("draining", state.batches().is_draining() ? 1 : 0);
  text.line("user", user.name());
  text.line("groups", groups_of(user));
}

}  // namespace

std::string info_text(ServerState& state, const User& user, std::span<const std::string_view> sections) {
  Text text(sections);
  const bool all = user.is_admin();
  if (text.section("Server")) put_server(state, text);
  if (text.section("Clients")) put_clients(state, user, text);
  if (text.section("Persistence")) {
    const ClusterBoard::Role role = state.role();
    const bool is_loading = role == ClusterBoard::Role::kLoading || role == ClusterBoard::Role::kUnconfirmed;
    text.line("loading", is_loading ? 1 : 0);
    put_store(state, user, text);
  }
  if (all && text.section("Stats")) put_stats(state.stats(), text);
  if (text.section("Replication")) put_role(state, text);
  if (text.section("Locksley")) put_daemon(state, user, text);
  const Account& own = user.tenant().account;
  if (text.section("Account")) put_account(all ? *own.parent() : own, text);
  if (text.section_on_demand("Lanes")) put_lanes(state, user, text);
  return std::move(text).take();
}

}  // namespace locksley::daemon

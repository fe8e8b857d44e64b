#include "daemon/server/info.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>

#include "daemon/server/server.h"
#include "daemon/store/store.h"
#include "proto/text.h"

namespace locksley::daemon {

namespace {

class Text {
 public:
  explicit Text(std::span<const std::string_view> sections) : sections_(sections) {}

  // Whether it is wanted; then its lines follow.
  bool section(std::string_view name) {
    return begin(name, sections_.empty() || is_named(name) || is_named("default"));
  }
  // The same of one that has to be asked for.
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

// What of a limit for all and one of the user's own, of which 0 is none, comes first.
std::uint64_t lesser(std::uint64_t of_all, std::uint64_t own) {
  return own == 0 ? of_all : std::min(of_all, own);
}

// Jobs that have ended since the daemon started.
std::uint64_t ended_jobs(const Server& server) {
  std::uint64_t sum = 0;
  for (const auto& [name, entry] : server.handlers().entries()) {
    for (const auto& count : entry.handler.stats.jobs) {
      // [handler-stats] relaxed: a number to look at, as exact as the moment of looking.
      sum += count.load(std::memory_order_relaxed);
    }
  }
  return sum;
}

std::string groups_of(const User& user) {
  std::string text;
  for (const auto group : {proto::CommandGroup::kSubmit, proto::CommandGroup::kRead,
                           proto::CommandGroup::kControl, proto::CommandGroup::kAdmin}) {
    if (user.may(group)) text += fmt::format("{}{}", text.empty() ? "" : ",", proto::to_string(group));
  }
  return text;
}

// A line for each lane of a handler that the user may use, with all that is in it, or with the user's own.
void put_lanes(Server& server, const User& user, Text& text) {
  std::map<const Lane*, std::uint64_t> slots;
  for (const auto& [name, entry] : server.handlers().entries()) {
    if (!user.may_use(name)) continue;
    slots[&entry.lane] += entry.concurrency;
  }
  for (const Lane* lane : server.lanes()) {
    const auto found = slots.find(lane);
    const RingSnapshot ring = lane->ring().snapshot(0, steady_now());
    // Those of handlers that are there no more stay for what they have left.
    if (found == slots.end() && (!user.is_admin() || ring.active_queues == 0)) continue;
    TenantView seen;
    if (user.is_admin()) {
      seen.queues = ring.active_queues;
      seen.queued = ring.queued;
      seen.executors = ring.executors;
    } else if (const auto own = std::ranges::find(ring.tenants, user.name(), &TenantView::tenant);
               own != ring.tenants.end()) {
      seen = *own;
    }
    // That of the pool has handlers that name no number.
    const std::uint64_t wide = found == slots.end() ? 0
                               : found->second != 0 ? found->second
                                                    : server.pool().workers();
    text.line("lane_" + lane->name(), fmt::format("slots={},running={},queued={},batches={}", wide,
                                                  seen.executors, seen.queued, seen.queues));
  }
}

void put_store(const Server& server, const User& user, Text& text) {
  const Store* const store = server.store();
  const auto is_failing = [store] { return !store->error().empty(); };
  text.line("store", store == nullptr ? "memory" : is_failing() ? "failing" : "ready");
  if (store == nullptr || !user.is_admin()) return;
  const Store::Stats stats = store->stats();
  text.line("store_bytes", stats.disk_bytes);
  text.line("store_errors", stats.errors);
}

}  // namespace

std::string info_text(Server& server, const User& user, std::span<const std::string_view> sections) {
  Text text(sections);
  const ServerStats& stats = server.stats();
  const Tenant& own = user.tenant();
  const bool all = user.is_admin();
  if (text.section("Server")) {
    const auto uptime = std::chrono::steady_clock::now() - server.started_at();
    text.line("redis_version", kRedisVersion);
    text.line("redis_mode", "standalone");
    text.line("locksley_version", server.version());
    text.line("process_id", ::getpid());
    text.line("tcp_port", server.port());
    text.line("uptime_in_seconds", std::chrono::duration_cast<std::chrono::seconds>(uptime).count());
  }
  if (text.section("Clients")) {
    text.line("connected_clients", all ? stats.connections.get() : own.connections);
    text.line("maxclients", server.config().limits.max_clients);
    if (all) {
      text.line("blocked_clients", stats.blocked.get());
      text.line("pubsub_clients", stats.subscribers.get());
    }
  }
  if (text.section("Persistence")) {
    text.line("loading", 0);
    put_store(server, user, text);
  }
  if (all && text.section("Stats")) {
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
  if (text.section("Replication")) {
    text.line("role", "master");
    text.line("connected_slaves", 0);
  }
  if (text.section("Locksley")) {
    text.line("workers", server.pool().workers());
    text.line("handlers", std::ranges::count_if(server.handlers().entries(), [&user](const auto& item) {
                return user.may_use(item.first);
              }));
    text.line("active_batches", all ? stats.active_batches.get() : own.active_batches);
    if (all) text.line("retained_batches", stats.retained_batches.get());
    if (all) text.line("ended_jobs", ended_jobs(server));
    text.line("queued_jobs", all ? stats.queued_jobs.get() : own.queued_jobs);
    text.line("queued_bytes", all ? stats.queued_bytes.get() : own.queued_bytes);
    const auto& limits = server.config().limits;
    text.line("max_queued_jobs", lesser(limits.max_queued_jobs, own.quotas.max_queued_jobs));
    text.line("max_queued_bytes", lesser(limits.max_queued_bytes.count, own.quotas.max_queued_bytes));
    text.line("draining", server.batches().is_draining() ? 1 : 0);
    text.line("user", user.name());
    text.line("groups", groups_of(user));
  }
  if (text.section_on_demand("Lanes")) put_lanes(server, user, text);
  return std::move(text).take();
}

}  // namespace locksley::daemon

#include "daemon/server/info.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "daemon/server/server.h"
#include "proto/text.h"

namespace locksley::daemon {

namespace {

class Text {
 public:
  explicit Text(std::span<const std::string_view> sections) : sections_(sections) {}

  bool section(std::string_view name) {
    const bool wanted = sections_.empty() || std::ranges::any_of(sections_, [&](std::string_view section) {
                          return proto::equals_ignoring_case(section, name) ||
                                 proto::equals_ignoring_case(section, "all") ||
                                 proto::equals_ignoring_case(section, "default") ||
                                 proto::equals_ignoring_case(section, "everything");
                        });
    if (wanted) text_ += fmt::format("{}# {}\r\n", text_.empty() ? "" : "\r\n", name);
    return wanted;
  }

  template <class Value>
  void line(std::string_view key, const Value& value) {
    text_ += fmt::format("{}:{}\r\n", key, value);
  }

  std::string take() && { return std::move(text_); }

 private:
  std::span<const std::string_view> sections_;
  std::string text_;
};

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
  if (text.section("Persistence")) text.line("loading", 0);
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
    text.line("queued_jobs", all ? stats.queued_jobs.get() : own.queued_jobs);
    text.line("queued_bytes", all ? stats.queued_bytes.get() : own.queued_bytes);
    text.line("draining", server.batches().is_draining() ? 1 : 0);
  }
  return std::move(text).take();
}

}  // namespace locksley::daemon

#include "daemon/server/state/audit.h"

#include <spdlog/logger.h>

#include "daemon/base/log/log_line.h"
#include "daemon/base/time.h"
#include "daemon/server/accounts/tenants.h"
#include "daemon/server/accounts/users.h"

namespace locksley::daemon {

Audit::Audit(const spdlog::logger& log)
    : log_(std::make_shared<spdlog::logger>(log.name(), log.sinks().begin(), log.sinks().end())) {
  log_->set_level(spdlog::level::info);
}

Audit::Gates& Audit::gates_of(const User& user) {
  const std::uint32_t number = user.tenant().number;
  if (number >= gates_.size()) gates_.resize(number + 1);
  return gates_[number];
}

std::unique_ptr<Audit::Entry> Audit::begin(const User& user, std::string_view peer, Kind kind) {
  if (!is_on_) return nullptr;
  Gates& gates = gates_of(user);
  RateGate& gate = kind == Kind::kSubmission ? gates.submissions : gates.others;
  if (!gate.open(now())) return nullptr;
  auto entry = std::make_unique<Entry>();
  entry->user = user.name();
  entry->peer = peer;
  entry->unlogged = gate.held_back();
  return entry;
}

void Audit::write(const Entry& entry) {
  LogLine line("audit");
  line.with("user", entry.user).with("peer", entry.peer).with("command", entry.command);
  if (!entry.keys.empty()) line.with("keys", entry.keys);
  if (!entry.batch.empty()) line.with("batch", entry.batch);
  if (!entry.handler.empty()) line.with("handler", entry.handler);
  if (!entry.customer.empty()) line.with("customer", entry.customer);
  if (!entry.backup.empty()) line.with("backup", entry.backup);
  line.with("outcome", entry.outcome.empty() ? "ok" : entry.outcome);
  line.with("unlogged", entry.unlogged).write(*log_, spdlog::level::info);
}

void Audit::refused_by_store(const User* user, std::string_view peer, std::uint64_t commands) {
  if (!is_on_) return;
  RateGate& gate = (user == nullptr ? gates_without_user_ : gates_of(*user)).refusals;
  if (!gate.open(now())) return;
  LogLine("audit: the store refused what was accepted")
      .with("user", user == nullptr ? std::string_view() : std::string_view(user->name()))
      .with("peer", peer)
      .with("commands", commands)
      .with("outcome", "STORE")
      .with("unlogged", gate.held_back())
      .write(*log_, spdlog::level::info);
}

}  // namespace locksley::daemon

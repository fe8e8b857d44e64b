#include "daemon/server/state/audit.h"

#include <spdlog/logger.h>

#include "daemon/base/log_line.h"
#include "daemon/base/time.h"
#include "daemon/server/accounts/tenants.h"
#include "daemon/server/accounts/users.h"

namespace locksley::daemon {

std::unique_ptr<Audit::Entry> Audit::begin(const User& user, std::string_view peer, Kind kind) {
  if (!is_on_) return nullptr;
  const std::uint32_t number = user.tenant().number;
  if (number >= gates_.size()) gates_.resize(number + 1);
  RateGate& gate = kind == Kind::kSubmission ? gates_[number].submissions : gates_[number].others;
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
  line.with("outcome", entry.outcome.empty() ? "ok" : entry.outcome);
  line.with("unlogged", entry.unlogged).write(*log_, spdlog::level::info);
}

void Audit::refused_by_store(const User* user, std::string_view peer, std::uint64_t commands) {
  if (!is_on_) return;
  LogLine("audit: the store refused what was accepted")
      .with("user", user == nullptr ? std::string_view() : std::string_view(user->name()))
      .with("peer", peer)
      .with("commands", commands)
      .with("outcome", "STORE")
      .write(*log_, spdlog::level::info);
}

}  // namespace locksley::daemon

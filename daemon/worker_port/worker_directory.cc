#include "daemon/worker_port/worker_directory.h"

#include <utility>

namespace locksley::daemon {

std::shared_ptr<const WorkerDirectory> WorkerDirectory::make(const ServerState& state,
                                                             std::shared_ptr<const TlsContext> tls,
                                                             std::string address) {
  const config::Config& config = state.config();
  auto made = std::make_shared<WorkerDirectory>();
  made->has_users = state.users().are_configured();
  made->everybody = state.users().everybody();
  for (const auto& [name, user] : config.users) made->users.emplace(name, state.users().find(name));
  for (const auto& [name, entry] : state.handlers().entries()) {
    if (entry.is_remote) made->handlers.emplace(name, HandlerPlace{.lane = &entry.lane, .gate = entry.gate});
  }
  made->tls = std::move(tls);
  made->address = std::move(address);
  made->cluster = state.cluster();
  made->limits = state.reader_limits();
  made->max_clients = config.limits.max_clients;
  made->login_timeout = config.limits.login_timeout;
  return made;
}

const User* WorkerDirectory::user(std::string_view name) const {
  if (!has_users) return name == everybody->name() ? everybody.get() : nullptr;
  const auto found = users.find(name);
  return found == users.end() ? nullptr : found->second.get();
}

UserRef WorkerDirectory::current_of(const User& user) const {
  if (user.is_everybody()) return has_users ? nullptr : everybody;
  const auto found = users.find(user.name());
  return found == users.end() ? nullptr : found->second;
}

}  // namespace locksley::daemon

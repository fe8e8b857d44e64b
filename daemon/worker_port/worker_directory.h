// Users, handlers and lanes, for the link thread.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/loop/io_thread.h"
#include "daemon/server/accounts/users.h"
#include "daemon/server/state/server_state.h"
#include "daemon/store/cluster_board.h"
#include "daemon/tls/context.h"
#include "daemon/workers/interface/worker_host.h"
#include "proto/limits.h"

namespace locksley::daemon {

// The part of the configuration that the link thread needs: a snapshot, immutable and shared. The
// I/O thread makes it, and the link thread keeps it until the next one comes.
struct WorkerDirectory {
  // Makes one from the configuration in force. `address`: where workers connect.
  static std::shared_ptr<const WorkerDirectory> make(const ServerState& state,
                                                     std::shared_ptr<const TlsContext> tls,
                                                     std::string address) LOCKSLEY_REQUIRES(kIoThread);

  // Null: there is no user of this name.
  const User* user(std::string_view name) const;
  // The object of this directory for the same user; null if the user was removed, or if it was the
  // user of every peer (`everybody`) and users are configured now.
  UserRef current_of(const User& user) const;

  bool has_users = false;  // else every peer is `everybody`
  UserRef everybody;
  std::map<std::string, UserRef, std::less<>> users;  // by name
  std::map<std::string, HandlerPlace, std::less<>>
      handlers;                           // for remote workers; the lanes outlive the link
  std::shared_ptr<const TlsContext> tls;  // for new connections; null: plain
  std::string address;                    // where workers connect to this daemon
  const ClusterBoard* cluster = nullptr;  // of the other daemons; null: there are none. It outlives the link
  proto::Limits limits;                   // of a peer that has logged in
  std::uint64_t max_clients = 0;
  std::chrono::nanoseconds login_timeout{};
};

}  // namespace locksley::daemon

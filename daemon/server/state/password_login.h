// Logins by name and password, for both ports that speak RESP: for clients and for workers.
#pragma once

#include <expected>
#include <functional>
#include <string>

#include "daemon/base/loop/io_thread.h"
#include "daemon/server/accounts/users.h"
#include "daemon/server/state/server_state.h"

namespace locksley::daemon {

// The name and the password that a peer has sent, by AUTH or HELLO, to one of these ports.
struct PasswordLogin {
  std::string user;
  std::string password;  // wiped after the check
  std::string address;   // of the peer, without the port: checks go round addresses
  std::string peer;      // its address as the log has it
};

// Calls `done` once with the user whose password it is, or with the text of the error reply: on the
// I/O thread, within this call or later; not if the daemon ends before. While no users are
// configured every peer is `default`, whatever the password, as in Redis if that user has none.
// Refusals are counted and logged here; the caller counts the connection of the user. Nothing
// blocks: the Authenticator's thread checks.
using LoggedIn = std::function<void(std::expected<UserRef, std::string>)>;
void log_in_by_password(ServerState& state, PasswordLogin login, LoggedIn done) LOCKSLEY_REQUIRES(kIoThread);

// The errors of a login whose user has all the connections that it may have; or has another
// password, or was removed, since the check.
inline constexpr std::string_view kTooManyConnections = "ERR max number of clients reached";
inline constexpr std::string_view kChangedMeanwhile =
    "ERR the user has changed since its password was checked: log in again";

}  // namespace locksley::daemon

// Logins at the port for workers.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "daemon/base/loop/io_thread.h"
#include "daemon/server/accounts/credential.h"
#include "daemon/server/accounts/users.h"
#include "daemon/server/state/server_state.h"

namespace locksley::daemon {

// One connection of a user's quota of connections: taken by the login, given back when the last
// copy is destroyed, on any thread.
using ConnectionPlace = std::shared_ptr<void>;

// The credentials that a peer has shown, and the place that it has already.
struct LoginQuestion {
  // kNone: none was shown; the peer is logged in only while no users are configured.
  Credential by = Credential::kNone;
  std::string name = {};       // of the user; with kCertificate, the certificate's common name
  std::string password = {};   // wiped after the check
  std::string address = {};    // of the peer, without the port
  ConnectionPlace place = {};  // that the peer has already; null: none
};

// The outcome of a login.
struct LoginAnswer {
  UserRef user;  // null: it is not logged in
  ConnectionPlace place;
  // The error reply; empty: no reply, and the peer has to log in by a password.
  std::string refusal;
};

// Decides about logins at the port for workers, by the users, passwords and quotas of the client
// port.
//
// Owned by the WorkerPort. `state` outlives it, and also the posted functions that give places
// back. The I/O thread only. Nothing blocks: the Authenticator's thread checks passwords.
class LoginDesk {
 public:
  using Done = std::function<void(LoginAnswer)>;

  explicit LoginDesk(ServerState& state) : state_(state) {}
  LoginDesk(const LoginDesk&) = delete;
  LoginDesk& operator=(const LoginDesk&) = delete;

  // Calls `done` once, on the I/O thread, within this call or later; not if the daemon ends before.
  void ask(LoginQuestion question, Done done) LOCKSLEY_REQUIRES(kIoThread);

 private:
  // `place`: as LoginQuestion::place.
  LoginAnswer admit(const UserRef& user, ConnectionPlace place) LOCKSLEY_REQUIRES(kIoThread);

  ServerState& state_;
};

}  // namespace locksley::daemon

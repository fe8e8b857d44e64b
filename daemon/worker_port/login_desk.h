// Logins at the port for workers.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "daemon/base/io_thread.h"
#include "daemon/server/accounts/credential.h"
#include "daemon/server/accounts/users.h"
#include "daemon/server/state/server_state.h"

namespace locksley::daemon {

// A user's place among its connections: taken by the login, given back when the last copy goes, on any thread.
using ConnectionPlace = std::shared_ptr<void>;

// What a peer has shown to be logged in.
struct LoginQuestion {
  // kNone: it has shown nothing, and is logged in only while no users are configured.
  Credential by = Credential::kNone;
  std::string name = {};       // of the user; of kCertificate, the certificate's common name
  std::string password = {};   // wiped after the check
  std::string address = {};    // of the peer, without the port
  ConnectionPlace place = {};  // that the peer has already; null: none
};

// What a login, or a certificate, came to.
struct LoginAnswer {
  UserRef user;  // null: it is not logged in
  ConnectionPlace place;
  // The error reply; empty: there is none to send, and the peer has to log in by a password.
  std::string refusal;
};

// Answers logins by the users, the passwords and the quotas that the client port has.
//
// Owned by the WorkerPort; `state` outlives it, and the posts of places that are given back. The I/O thread only,
// where nothing blocks: passwords are checked by the Authenticator's thread.
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

// Logging the user of a connection in and out.
#pragma once

#include <cstdint>
#include <string_view>

#include "daemon/base/loop/io_thread.h"
#include "daemon/base/time.h"
#include "daemon/connection/connection.h"
#include "daemon/connection/strangers.h"
#include "daemon/server/accounts/credential.h"
#include "daemon/server/accounts/users.h"
#include "daemon/server/session/login.h"
#include "daemon/server/session/session_input.h"
#include "daemon/server/session/session_memory.h"
#include "daemon/server/session/subscriptions/subscription_moves.h"
#include "daemon/server/session/subscriptions/subscriptions.h"
#include "daemon/server/state/server_state.h"
#include "proto/command_table.h"

namespace locksley::daemon {

// Logs the user of one connection in and out, and updates each part of the connection: the account
// that pays for its memory, the line of its turns, its state, the limits of its input, its
// subscriptions, and its place among the connections that have not logged in (Strangers).
//
// A member of a Session, as are the parts that it borrows; end() comes at the end. The I/O thread
// only. Nothing blocks. A login that is refused changes nothing.
class SessionLogin {
 public:
  // `id`: of the connection. log_out() comes before anything else.
  SessionLogin(ServerState& state, Strangers& strangers, std::uint64_t id, Connection& connection,
               SessionInput& input, SessionMemory& memory, Subscriptions& subscriptions,
               SubscriptionMoves& subscription_moves) LOCKSLEY_REQUIRES(kIoThread);
  SessionLogin(const SessionLogin&) = delete;
  SessionLogin& operator=(const SessionLogin&) = delete;

  // False until the peer has logged in. While no users are configured, every peer counts as logged
  // in.
  bool is_logged_in() const { return login_.user() != nullptr; }
  // Needs: is_logged_in(). Do not keep the reference: each change of the configuration replaces the
  // object.
  const User& user() const { return *login_.user(); }
  // That of its user. Needs: is_logged_in().
  Account& account() const { return user().tenant().account; }
  // Null: no user.
  const UserRef& user_ref() const { return login_.user(); }
  // Whether the peer may send commands of this group. False for all until it is logged in.
  bool may(proto::CommandGroup group) const { return login_.may(group); }
  // By a client certificate.
  bool is_by_certificate() const { return login_.credential() == Credential::kCertificate; }
  // When the connection closes, unless a user has logged in by then.
  Instant deadline() const LOCKSLEY_REQUIRES(kIoThread) {
    return login_.stranger_since() + state_.config().limits.login_timeout;
  }

  // False, without effect, if the user has all the connections that it may have.
  bool log_in(const UserRef& user, Credential credential) LOCKSLEY_REQUIRES(kIoThread);
  // A password for this connection is being checked, until log_in() or check_failed().
  void check_begins() LOCKSLEY_REQUIRES(kIoThread) { stranger_.check_begins(); }
  void check_failed() LOCKSLEY_REQUIRES(kIoThread);
  // Puts the connection back into its first state.
  void log_out() LOCKSLEY_REQUIRES(kIoThread);
  // After a TLS handshake. False if no user has that certificate, or log_in() refuses.
  bool log_in_by_certificate(std::string_view common_name) LOCKSLEY_REQUIRES(kIoThread);

  // The users in force have changed: takes over its user. Returns why the connection must be
  // dropped instead: the user was removed, may no longer read while it subscribes, or the
  // credential that logged it in has changed. Empty: it may stay.
  [[nodiscard]] std::string_view users_changed() LOCKSLEY_REQUIRES(kIoThread);
  // The connection gives way to a new one, or ends: it leaves its place among those that have not
  // logged in.
  void leave_strangers() LOCKSLEY_REQUIRES(kIoThread) { stranger_.leave(); }
  // No user is logged in from now on.
  void end() LOCKSLEY_REQUIRES(kIoThread) { set_user(nullptr, Credential::kNone); }

 private:
  // Null: no user.
  void set_user(UserRef user, Credential credential) LOCKSLEY_REQUIRES(kIoThread);

  ServerState& state_;
  Connection& connection_;
  SessionInput& input_;
  SessionMemory& memory_;
  Subscriptions& subscriptions_;
  SubscriptionMoves& subscription_moves_;

  Login login_;
  Strangers::Entry stranger_ LOCKSLEY_GUARDED_BY(kIoThread);
};

}  // namespace locksley::daemon

#include "daemon/server/session/session_login.h"

#include <utility>

namespace locksley::daemon {

SessionLogin::SessionLogin(ServerState& state, Strangers& strangers, std::uint64_t id, Connection& connection,
                           SessionInput& input, SessionMemory& memory, Subscriptions& subscriptions,
                           SubscriptionMoves& subscription_moves)
    : state_(state),
      connection_(connection),
      input_(input),
      memory_(memory),
      subscriptions_(subscriptions),
      subscription_moves_(subscription_moves),
      login_(connection.connected_at()),
      stranger_(strangers, id, connection.transport().address()) {}

bool SessionLogin::log_in(const UserRef& user, Credential credential) {
  if (!login_.has_room_for(*user)) return false;
  set_user(user, credential);
  return true;
}

void SessionLogin::check_failed() {
  if (!is_logged_in() && !connection_.life().is_dropped()) stranger_.enter(login_.stranger_since());
}

void SessionLogin::log_out() {
  const Users& users = state_.users();
  set_user(users.are_configured() ? nullptr : users.everybody(), Credential::kNone);
  // The certificate logs its user in again, as long as the connection lives.
  Transport& transport = connection_.transport();
  if (transport.is_tls()) log_in_by_certificate(transport.peer_common_name());
}

bool SessionLogin::log_in_by_certificate(std::string_view common_name) {
  const UserRef user = state_.users().by_certificate(common_name);
  return user != nullptr && log_in(user, Credential::kCertificate);
}

void SessionLogin::set_user(UserRef user, Credential credential) {
  login_.set(std::move(user), credential);
  const UserRef& set = login_.user();
  set == nullptr ? stranger_.enter(login_.stranger_since()) : stranger_.leave();
  memory_.set_account(set == nullptr ? nullptr : &set->tenant().account);
  const LineNumber line = set == nullptr ? kStrangersLine : line_of_tenant(set->tenant().number);
  connection_.wakeup().set_line(line);
  connection_.transport().set_line(line);
  ConnectionLife& life = connection_.life();
  if (life.is_open()) life.go_to(set == nullptr ? Life::kStranger : Life::kServing);
  input_.set_limits(set == nullptr ? proto::Limits::before_authentication() : state_.reader_limits());
  // Done first, so that the connection gets no events of other users' batches.
  if (!may(proto::CommandGroup::kRead) && !subscriptions_.empty()) subscriptions_.clear();
  if (set != nullptr) subscription_moves_.follow();
}

std::string_view SessionLogin::users_changed() {
  if (!is_logged_in()) {
    const bool are_configured = state_.users().are_configured();
    return are_configured ? "" : "it was asked to log in, and no users are configured any more";
  }
  UserRef user = state_.users().current_of(*login_.user());
  if (user == nullptr) return "its user was removed";
  if (const std::string_view objection = login_.objection(*user); !objection.empty()) return objection;
  // The connection's subscriptions would be silent for ever. Redis drops such a connection, too.
  if (!subscriptions_.empty() && !user->may(proto::CommandGroup::kRead)) {
    return "its user may no longer read";
  }
  set_user(std::move(user), login_.credential());
  return {};
}

}  // namespace locksley::daemon

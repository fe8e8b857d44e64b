// Login and logout: the user of a connection.
#include <utility>

#include "daemon/server/session/session.h"

namespace locksley::daemon {

bool Session::log_in(const UserRef& user, Credential credential) {
  if (!login_.has_room_for(*user)) return false;
  set_user(user, credential);
  return true;
}

void Session::check_failed() {
  if (!is_logged_in() && !is_dropped()) stranger_.enter(login_.stranger_since());
}

void Session::log_out() {
  const Users& users = state_.users();
  set_user(users.are_configured() ? nullptr : users.everybody(), Credential::kNone);
  // A certificate stands for its user for as long as the connection lives.
  if (transport().is_tls()) log_in_by_certificate(transport().peer_common_name());
}

bool Session::log_in_by_certificate(std::string_view common_name) {
  const UserRef user = state_.users().by_certificate(common_name);
  return user != nullptr && log_in(user, Credential::kCertificate);
}

void Session::set_user(UserRef user, Credential credential) {
  login_.set(std::move(user), credential);
  const UserRef& set = login_.user();
  set == nullptr ? stranger_.enter(login_.stranger_since()) : stranger_.leave();
  memory_.set_account(set == nullptr ? nullptr : &set->tenant().account);
  const LineNumber line = set == nullptr ? kStrangersLine : line_of_tenant(set->tenant().number);
  wakeup().set_line(line);
  transport().set_line(line);
  if (life().is_open()) life().go_to(set == nullptr ? Life::kStranger : Life::kServing);
  reader_.set_limits(set == nullptr ? proto::Limits::before_authentication() : state_.reader_limits());
  // Done first, so that it gets no events of the batches of others.
  if (!may(proto::CommandGroup::kRead) && !subscriptions_.empty()) subscriptions_.clear();
  if (set != nullptr) subscription_moves_.follow();
}

void Session::authorities_changed(const TlsContext* context) {
  const bool is_by_certificate = login_.credential() == Credential::kCertificate;
  const std::string_view objection = connection_.objection_of_authorities(context, is_by_certificate);
  if (!objection.empty()) drop(objection);
}

void Session::users_changed() {
  if (!is_logged_in()) {
    if (!state_.users().are_configured())
      drop("it was asked to log in, and no users are configured any more");
    return;
  }
  UserRef user = state_.users().current_of(*login_.user());
  if (user == nullptr) return drop("its user was removed");
  if (const std::string_view objection = login_.objection(*user); !objection.empty()) return drop(objection);
  // Its subscriptions would be silent for ever. Redis drops such a connection, too.
  if (!subscriptions_.empty() && !user->may(proto::CommandGroup::kRead)) {
    return drop("its user may no longer read");
  }
  set_user(std::move(user), login_.credential());
}

}  // namespace locksley::daemon

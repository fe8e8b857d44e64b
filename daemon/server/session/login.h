// The user of a connection.
#pragma once

#include <string_view>
#include <utility>

#include "daemon/base/time.h"
#include "daemon/server/accounts/credential.h"
#include "daemon/server/accounts/users.h"
#include "daemon/server/records/batch_record.h"
#include "proto/command_table.h"

namespace locksley::daemon {

// The user of a connection and the credential that logged it in, or since when there is no user.
// Counts the connection in the account of its user's tenant.
//
// A member of a Session, which sets it to null when it ends: tenants count connections.
// The I/O thread only. Nothing blocks.
class Login {
 public:
  explicit Login(Instant since) : stranger_since_(since) {}
  Login(const Login&) = delete;
  Login& operator=(const Login&) = delete;

  // Null: no user has logged in.
  const UserRef& user() const { return user_; }
  // Whether the user may send commands of this group: one test of a bit. False for all while there
  // is none.
  bool may(proto::CommandGroup group) const { return (groups_ & bit_of(group)) != 0; }
  // Since when limits.login_timeout counts. Needs: there is no user.
  Instant stranger_since() const { return stranger_since_; }

  // Whether the user may have this connection, too: its quota of connections.
  bool has_room_for(const User& user) const {
    Tenant& tenant = user.tenant();
    const bool is_counted = user_ != nullptr && &user_->tenant() == &tenant;
    return is_counted || tenant.account.has_room(Resource::kConnections, 1);
  }
  // As objection_to(), with the credential that logged this connection in. Needs: there is a user.
  std::string_view objection(const User& current) const { return objection_to(credential_, *user_, current); }
  Credential credential() const { return credential_; }
  // Null: no user.
  void set(UserRef user, Credential credential) {
    if (user_ != nullptr) user_->tenant().account.refund(Resource::kConnections, 1);
    if (user != nullptr) user->tenant().account.charge(Resource::kConnections, 1);
    if (user == nullptr && user_ != nullptr) stranger_since_ = now();
    user_ = std::move(user);
    groups_ = user_ == nullptr ? CommandGroups{0} : user_->groups();
    credential_ = credential;
  }

 private:
  UserRef user_;
  CommandGroups groups_ = 0;  // of user_
  Credential credential_ = Credential::kNone;
  Instant stranger_since_;
};

}  // namespace locksley::daemon

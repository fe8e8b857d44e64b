// Users: their permissions, and which users are configured.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/config.h"
#include "core/ring/state/group_limits.h"
#include "daemon/base/loop/io_thread.h"
#include "daemon/server/accounts/tenants.h"
#include "proto/command_table.h"

namespace locksley::daemon {

// A set of groups of commands, a bit each.
using CommandGroups = std::uint8_t;
constexpr CommandGroups bit_of(proto::CommandGroup group) {
  return static_cast<CommandGroups>(1U << static_cast<unsigned>(group));
}

// Whether a configured user may use the handler only if the user's `handlers` name it. So it is for
// `sleep` and `spin`, which are for demonstrations and occupy a worker of the pool for as long as
// the payload says, and for `fib`, which with a large payload occupies all workers for minutes.
bool is_opt_in(std::string_view handler);

// A user as it is configured. Immutable: a change of the configuration makes a new object. Shared
// by Users and by the connections of the user; the last of them drops it. Refers to its tenant,
// which outlives it. Any thread may read it, except for the tenant, which belongs to the I/O
// thread.
class User {
 public:
  // The user of every connection while no users are configured: `default`, which may do everything.
  explicit User(Tenant& tenant);
  User(Tenant& tenant, const config::User& user);

  const std::string& name() const { return tenant_->name; }
  // The accounts of the user.
  Tenant& tenant() const { return *tenant_; }
  bool is_everybody() const { return is_everybody_; }
  // Encoded; empty: every password is refused.
  const std::string& password_hash() const { return password_hash_; }
  const std::string& certificate() const { return certificate_; }

  CommandGroups groups() const { return groups_; }
  bool may(proto::CommandGroup group) const { return (groups_ & bit_of(group)) != 0; }
  // An admin sees batches and connections of all users, and may change them as its groups allow.
  bool is_admin() const { return may(proto::CommandGroup::kAdmin); }
  bool may_use(std::string_view handler) const {
    return handlers_.contains(handler) || (handlers_.empty() && (is_everybody_ || !is_opt_in(handler)));
  }

 private:
  Tenant* const tenant_;
  const bool is_everybody_;
  std::string password_hash_;
  std::string certificate_;
  CommandGroups groups_;
  std::set<std::string, std::less<>> handlers_;  // empty: all but those that are opt-in
};
using UserRef = std::shared_ptr<const User>;

// The texts of the error replies.
std::string no_permission_error(const User& user, std::string_view command);
std::string no_handler_permission_error(const User& user, std::string_view handler);

// Sets the limits of the account of all users, and the limits of each tenant that follow from them.
// Call it after Users::replace(), and before the first charge.
void set_limits_of_all(Tenants& tenants, const config::Config& config);

// The users in force. Owned by ServerState; the I/O thread only. Nothing blocks.
class Users {
 public:
  explicit Users(Tenants& tenants);
  Users(const Users&) = delete;
  Users& operator=(const Users&) = delete;

  // Puts these users and their quotas in force. Returns the tenants whose weight, slots or rate
  // have changed, with what they have now.
  std::vector<std::pair<std::string, GroupLimits>> replace(const std::map<std::string, config::User>& users)
      LOCKSLEY_REQUIRES(kIoThread);

  // If no users are configured, no client has to log in, and the user of every connection is
  // everybody().
  bool are_configured() const LOCKSLEY_REQUIRES(kIoThread) { return !by_name_.empty(); }
  const UserRef& everybody() const { return everybody_; }

  // Null if there is none.
  UserRef find(std::string_view name) const LOCKSLEY_REQUIRES(kIoThread);
  // The user whose client certificate has this common name; null if there is none.
  UserRef by_certificate(std::string_view common_name) const LOCKSLEY_REQUIRES(kIoThread);
  // The same user as it is now; null if it was removed.
  UserRef current_of(const User& user) const LOCKSLEY_REQUIRES(kIoThread);

  // The limits of the tenants with a limit, or with a weight other than 1.
  const std::map<std::string, GroupLimits>& limits() const LOCKSLEY_REQUIRES(kIoThread) { return limits_; }

 private:
  Tenants& tenants_;
  const UserRef everybody_;
  std::map<std::string, UserRef, std::less<>> by_name_ LOCKSLEY_GUARDED_BY(kIoThread);
  std::map<std::string, UserRef, std::less<>> by_certificate_ LOCKSLEY_GUARDED_BY(kIoThread);
  std::map<std::string, GroupLimits> limits_ LOCKSLEY_GUARDED_BY(kIoThread);
};

}  // namespace locksley::daemon

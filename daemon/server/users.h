// Who may do what.
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
#include "daemon/server/tenants.h"
#include "proto/command_table.h"

namespace locksley::daemon {

// A set of groups of commands, a bit each.
using CommandGroups = std::uint8_t;
constexpr CommandGroups bit_of(proto::CommandGroup group) {
  return static_cast<CommandGroups>(1U << static_cast<unsigned>(group));
}

// A user as the configuration has it. Immutable: a change of the configuration makes another. Shared by
// pointers that the connections of the user hold; the last one drops it. Refers to its tenant, which outlives
// it. Any thread may look, but at the tenant.
class User {
 public:
  // Everybody, while no users are configured: `default`, who may do all.
  explicit User(Tenant& tenant);
  User(Tenant& tenant, const config::User& user);

  const std::string& name() const { return tenant_->name; }
  // What the user has in use.
  Tenant& tenant() const { return *tenant_; }
  bool is_everybody() const { return is_everybody_; }
  // Encoded; empty: no password is right.
  const std::string& password_hash() const { return password_hash_; }
  const std::string& certificate() const { return certificate_; }

  CommandGroups groups() const { return groups_; }
  bool may(proto::CommandGroup group) const { return (groups_ & bit_of(group)) != 0; }
  // Sees what belongs to others, and does with it what its groups allow.
  bool is_admin() const { return may(proto::CommandGroup::kAdmin); }
  bool may_use(std::string_view handler) const { return handlers_.empty() || handlers_.contains(handler); }

 private:
  Tenant* const tenant_;
  const bool is_everybody_;
  std::string password_hash_;
  std::string certificate_;
  CommandGroups groups_;
  std::set<std::string, std::less<>> handlers_;  // empty: all
};
using UserRef = std::shared_ptr<const User>;

// The texts of the error replies.
std::string no_permission_error(const User& user, std::string_view command);
std::string no_handler_permission_error(const User& user, std::string_view handler);
inline constexpr std::string_view kNoAuth = "NOAUTH Authentication required.";

// The users in force. Owned by the Server; the I/O thread only. Nothing blocks.
class Users {
 public:
  explicit Users(Tenants& tenants);
  Users(const Users&) = delete;
  Users& operator=(const Users&) = delete;

  // From now on these are in force, with their quotas. Which tenants have another weight by it, and which.
  std::vector<std::pair<std::string, std::uint32_t>> replace(
      const std::map<std::string, config::User>& users);

  // Else nobody has to show who it is: everybody() is.
  bool are_configured() const { return !by_name_.empty(); }
  const UserRef& everybody() const { return everybody_; }

  // Null if there is none.
  UserRef find(std::string_view name) const;
  // Whom a client certificate with this common name stands for; null: nobody.
  UserRef by_certificate(std::string_view common_name) const;
  // The same user as it is now; null if it was removed.
  UserRef as_it_is_now(const User& user) const;

  // Of the tenants that have another than 1.
  const std::map<std::string, std::uint32_t>& weights() const { return weights_; }

 private:
  Tenants& tenants_;
  const UserRef everybody_;
  std::map<std::string, UserRef, std::less<>> by_name_;
  std::map<std::string, UserRef, std::less<>> by_certificate_;
  std::map<std::string, std::uint32_t> weights_;
};

}  // namespace locksley::daemon

#include "daemon/server/users.h"

#include <fmt/format.h>

#include "core/batch.h"
#include "proto/text.h"

namespace locksley::daemon {

namespace {

constexpr CommandGroups kAllGroups =
    bit_of(proto::CommandGroup::kConnection) | bit_of(proto::CommandGroup::kSubmit) |
    bit_of(proto::CommandGroup::kRead) | bit_of(proto::CommandGroup::kControl) |
    bit_of(proto::CommandGroup::kAdmin);

proto::CommandGroup group_of(config::CommandGroup group) {
  switch (group) {
    case config::CommandGroup::kSubmit:
      return proto::CommandGroup::kSubmit;
    case config::CommandGroup::kRead:
      return proto::CommandGroup::kRead;
    case config::CommandGroup::kControl:
      return proto::CommandGroup::kControl;
    case config::CommandGroup::kAdmin:
      break;
  }
  return proto::CommandGroup::kAdmin;
}

Quotas quotas_of(const config::User& user) {
  return {.max_queued_jobs = user.max_queued_jobs,
          .max_queued_bytes = user.max_queued_bytes.count,
          .max_batches = user.max_batches,
          .max_clients = user.max_clients};
}

}  // namespace

User::User(Tenant& tenant) : tenant_(&tenant), is_everybody_(true), groups_(kAllGroups) {}

User::User(Tenant& tenant, const config::User& user)
    : tenant_(&tenant),
      is_everybody_(false),
      password_hash_(user.password_hash),
      certificate_(user.certificate),
      groups_(bit_of(proto::CommandGroup::kConnection)),
      handlers_(user.handlers.begin(), user.handlers.end()) {
  for (const config::CommandGroup group : user.commands) groups_ |= bit_of(group_of(group));
}

std::string no_permission_error(const User& user, std::string_view command) {
  return fmt::format("NOPERM User {} has no permissions to run the '{}' command", user.name(), command);
}

std::string no_handler_permission_error(const User& user, std::string_view handler) {
  return fmt::format("NOPERM User {} has no permissions to use the handler '{}'", user.name(),
                     proto::printable(handler));
}

Users::Users(Tenants& tenants)
    : tenants_(tenants), everybody_(std::make_shared<const User>(tenants.of(BatchOptions{}.tenant))) {}

std::vector<std::pair<std::string, std::uint32_t>> Users::replace(
    const std::map<std::string, config::User>& users) {
  by_name_.clear();
  by_certificate_.clear();
  for (Tenant& tenant : tenants_.all()) tenant.quotas = {};
  std::map<std::string, std::uint32_t> weights;
  for (const auto& [name, user] : users) {
    Tenant& tenant = tenants_.of(name);
    tenant.quotas = quotas_of(user);
    const auto made = std::make_shared<const User>(tenant, user);
    by_name_.emplace(name, made);
    if (!user.certificate.empty()) by_certificate_.emplace(user.certificate, made);
    if (user.weight != 1) weights.emplace(name, user.weight);
  }
  std::vector<std::pair<std::string, std::uint32_t>> changed;
  for (const auto& [name, weight] : weights_) {
    if (!weights.contains(name)) changed.emplace_back(name, 1);
  }
  for (const auto& [name, weight] : weights) {
    const auto before = weights_.find(name);
    if (before == weights_.end() || before->second != weight) changed.emplace_back(name, weight);
  }
  weights_ = std::move(weights);
  return changed;
}

UserRef Users::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second;
}

UserRef Users::by_certificate(std::string_view common_name) const {
  const auto found = by_certificate_.find(common_name);
  return found == by_certificate_.end() ? nullptr : found->second;
}

UserRef Users::as_it_is_now(const User& user) const {
  if (user.is_everybody()) return are_configured() ? nullptr : everybody_;
  return find(user.name());
}

}  // namespace locksley::daemon

#include "daemon/server/accounts/users.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/start_rate.h"
#include "core/batch/batch.h"
#include "proto/text.h"

namespace locksley::daemon {

namespace {

constexpr CommandGroups kAllGroups =
    bit_of(proto::CommandGroup::kConnection) | bit_of(proto::CommandGroup::kSubmit) |
    bit_of(proto::CommandGroup::kRead) | bit_of(proto::CommandGroup::kControl) |
    bit_of(proto::CommandGroup::kAdmin) | bit_of(proto::CommandGroup::kWork);

proto::CommandGroup group_of(config::CommandGroup group) {
  switch (group) {
    case config::CommandGroup::kSubmit:
      return proto::CommandGroup::kSubmit;
    case config::CommandGroup::kRead:
      return proto::CommandGroup::kRead;
    case config::CommandGroup::kControl:
      return proto::CommandGroup::kControl;
    case config::CommandGroup::kWork:
      return proto::CommandGroup::kWork;
    case config::CommandGroup::kAdmin:
      break;
  }
  return proto::CommandGroup::kAdmin;
}

// 0 stands for none.
std::uint64_t limit_of(std::uint64_t count) { return count == 0 ? Account::kNoLimit : count; }

// A limit that is `auto` leaves room to others.
void set_limit(Account& account, Resource resource, const config::Limit& limit) {
  const bool leaves_room = limit.is_auto && limit.count != 0;
  account.set_limit(resource, limit_of(limit.count),
                    leaves_room ? Account::Kind::kLeavesRoom : Account::Kind::kFixed);
}

GroupLimits limits_of(const config::User& user) {
  return {.weight = user.weight,
          .slots = user.slots,
          .start_interval = start_interval(user.rate.count, user.rate.period)};
}

// `short_lived`: how users share resources that have no limit for each user, because users hold
// them only for a moment.
void set_limits(Account& account, const config::User& user, Account::Kind short_lived) {
  set_limit(account, Resource::kQueuedJobs, user.max_queued_jobs);
  set_limit(account, Resource::kQueuedBytes, user.max_queued_bytes);
  // With `auto`, payloads for which the memory has no room are in the store alone. A value counts
  // the payloads to the byte, in memory or not.
  account.set_limit(Resource::kPayloadBytes, user.max_queued_bytes.is_auto
                                                 ? Account::kNoLimit
                                                 : limit_of(user.max_queued_bytes.count));
  account.set_limit(Resource::kBatches, limit_of(user.max_batches));
  set_limit(account, Resource::kRecordBytes, user.max_record_bytes);
  set_limit(account, Resource::kStoredBytes, user.max_stored_bytes);
  account.set_limit(Resource::kClientBytes, limit_of(user.client_memory.count));
  set_limit(account, Resource::kConnections, user.max_clients);
  account.set_limit(Resource::kInputBytes, Account::kNoLimit, short_lived);
  account.set_limit(Resource::kUnsettledBytes, Account::kNoLimit, short_lived);
}

// Limit for payloads for which memory has no room: a group of the store has no more than this.
constexpr std::uint64_t kLeastUnsettled = 128U << 20;  // guess: a second of a slow disk

}  // namespace

bool is_opt_in(std::string_view handler) {
  return handler == "sleep" || handler == "spin" || handler == "fib";
}

void set_limits_of_all(Tenants& tenants, const config::Config& config) {
  Account& all = tenants.account_of_all();
  const config::Limits& limits = config.limits;
  all.set_limit(Resource::kQueuedJobs, limits.max_queued_jobs);
  all.set_limit(Resource::kQueuedBytes, limits.max_queued_bytes.count);
  all.set_limit(Resource::kRecordBytes, limits.max_record_bytes.count);
  all.set_limit(Resource::kStoredBytes, limit_of(config.store.max_bytes.count));
  all.set_limit(Resource::kClientBytes, limits.client_memory.count);
  all.set_limit(Resource::kConnections, limits.max_clients);
  all.set_limit(Resource::kInputBytes, limits.max_queued_bytes.count);
  all.set_limit(Resource::kUnsettledBytes,
                std::max<std::uint64_t>(limits.max_queued_bytes.count / 4, kLeastUnsettled));
  // A limit that is a value counts the bytes of payloads (kPayloadBytes). In memory payloads take
  // more than their bytes, so there such a user's limit is at least half of that of all users
  // together.
  for (const auto& [name, user] : config.users) {
    if (user.max_queued_bytes.is_auto || user.max_queued_bytes.count == 0) continue;
    tenants.of(name).account.set_limit(
        Resource::kQueuedBytes, std::max(user.max_queued_bytes.count, limits.max_queued_bytes.count / 2));
  }
  const std::uint64_t results = limits.max_result_bytes.count;
  all.set_result_limit(results);
  // If others have filled the memory of all, a user continues while it has no more than an equal
  // part of an eighth. So users with few results continue.
  const std::uint64_t spare = results / 8 / std::max<std::uint64_t>(tenants.all().size(), 1);
  for (Tenant& tenant : tenants.all())
    tenant.account.set_result_limit(tenant.account.results().limit(), spare);
}

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
  std::string text = fmt::format("NOPERM User {} has no permissions to use the handler '{}'", user.name(),
                                 proto::printable(handler));
  if (is_opt_in(handler)) text += fmt::format("; only users.{}.handlers gives them", user.name());
  return text;
}

Users::Users(Tenants& tenants)
    : tenants_(tenants), everybody_(std::make_shared<const User>(tenants.of(BatchOptions{}.tenant))) {}

std::vector<std::pair<std::string, GroupLimits>> Users::replace(
    const std::map<std::string, config::User>& users) {
  by_name_.clear();
  by_certificate_.clear();
  for (Tenant& tenant : tenants_.all()) {
    tenant.weight = 1;
    // A tenant that is not configured has only the limits of all.
    set_limits(tenant.account, config::User{}, Account::Kind::kFixed);
    tenant.account.set_result_limit(Account::kNoLimit);
  }
  std::map<std::string, GroupLimits> limits;
  for (const auto& [name, user] : users) {
    Tenant& tenant = tenants_.of(name);
    tenant.weight = user.weight;
    set_limits(tenant.account, user, Account::Kind::kLeavesRoom);
    tenant.account.set_result_limit(limit_of(user.max_result_bytes.count));
    const auto made = std::make_shared<const User>(tenant, user);
    by_name_.emplace(name, made);
    if (!user.certificate.empty()) by_certificate_.emplace(user.certificate, made);
    const GroupLimits own = limits_of(user);
    if (own != GroupLimits{}) limits.emplace(name, own);
  }
  std::vector<std::pair<std::string, GroupLimits>> changed;
  for (const auto& [name, before] : limits_) {
    if (!limits.contains(name)) changed.emplace_back(name, GroupLimits{});
  }
  for (const auto& [name, own] : limits) {
    const auto before = limits_.find(name);
    if (before == limits_.end() || before->second != own) changed.emplace_back(name, own);
  }
  limits_ = std::move(limits);
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

UserRef Users::current_of(const User& user) const {
  if (user.is_everybody()) return are_configured() ? nullptr : everybody_;
  return find(user.name());
}

}  // namespace locksley::daemon

#include "daemon/server/records/lookup.h"

#include <fmt/format.h>

#include "proto/text.h"

namespace locksley::daemon {

namespace {

// The only batch of this id, of any tenant.
Registry::Found find_only(Registry& registry, std::string_view id) LOCKSLEY_REQUIRES(kIoThread) {
  const Tenant* owner = nullptr;
  for (const Tenant& tenant : registry.tenants().all()) {
    const auto found = find_own_batch(registry, tenant, id);
    if (!found) return found;
    if (*found == nullptr) continue;
    if (owner != nullptr) {
      return std::unexpected(fmt::format("ERR several users have a batch '{}': say whose, as in '{}/{}'",
                                         proto::printable(id), owner->name, proto::printable(id)));
    }
    owner = &tenant;
  }
  if (owner == nullptr) return nullptr;
  // Again: batches that were loaded meanwhile may have replaced it in memory.
  return find_own_batch(registry, *owner, id);
}

}  // namespace

Registry::Found find_own_batch(Registry& registry, const Tenant& tenant, std::string_view id) {
  auto found = registry.find(tenant, id);
  if (!found) return std::unexpected(cannot_look_up(found.error()));
  return *found;
}

std::string cannot_look_up(std::string_view why) {
  return fmt::format("STORE the batch cannot be looked up at the moment: {}", why);
}

std::uint64_t first_to_load(const Registry& registry, const User& by, std::string_view id) {
  const auto is_decided = [](const Registry::Known& known) {
    return known.record != nullptr || known.to_load != 0;
  };
  Registry::Known known = registry.find_known(by.tenant(), id);
  if (is_decided(known) || !by.is_admin()) return known.to_load;
  if (const std::size_t slash = id.find('/'); slash != std::string_view::npos) {
    if (const Tenant* const tenant = registry.tenants().find(id.substr(0, slash))) {
      known = registry.find_known(*tenant, id.substr(slash + 1));
      if (is_decided(known)) return known.to_load;
    }
  }
  int owners = 0;
  for (const Tenant& tenant : registry.tenants().all()) {
    known = registry.find_known(tenant, id);
    if (known.to_load != 0) return known.to_load;
    if (known.record != nullptr && ++owners == 2) return 0;
  }
  return 0;
}

bool is_in_memory_alone(Registry& registry, const User& by, std::string_view id) {
  const auto is_taken = [&](const Tenant& tenant, std::string_view its_id) {
    kIoThread.assert_held();
    return registry.may_be_taken(tenant, its_id);
  };
  const auto is_not_stored = [&](const Tenant& tenant, std::string_view its_id) {
    kIoThread.assert_held();
    const BatchRecord* const record = registry.find_in_memory(tenant, its_id);
    return record != nullptr && !record->is_stored();
  };
  if (is_taken(by.tenant(), id) || !by.is_admin()) return is_not_stored(by.tenant(), id);
  if (const std::size_t slash = id.find('/'); slash != std::string_view::npos) {
    const Tenant* const tenant = registry.tenants().find(id.substr(0, slash));
    if (tenant != nullptr && is_taken(*tenant, id.substr(slash + 1)))
      return is_not_stored(*tenant, id.substr(slash + 1));
  }
  const Tenant* owner = nullptr;
  for (const Tenant& tenant : registry.tenants().all()) {
    if (!is_taken(tenant, id)) continue;
    if (owner != nullptr) return false;
    owner = &tenant;
  }
  return owner != nullptr && is_not_stored(*owner, id);
}

Registry::Found find_batch(Registry& registry, const User& by, std::string_view id) {
  auto found = find_own_batch(registry, by.tenant(), id);
  if (!found || *found != nullptr || !by.is_admin()) return found;
  // Ids may have a '/', names of users have none.
  if (const std::size_t slash = id.find('/'); slash != std::string_view::npos) {
    if (const Tenant* tenant = registry.tenants().find(id.substr(0, slash))) {
      found = find_own_batch(registry, *tenant, id.substr(slash + 1));
      if (!found || *found != nullptr) return found;
    }
  }
  found = find_only(registry, id);
  if (found && *found != nullptr && registry.has_admin_forgotten(by.tenant(), id)) {
    const std::string shown = proto::printable(id);
    return std::unexpected(
        fmt::format("NOBATCH your own batch '{}' was forgotten: write '{}/{}' for the one of that user",
                    shown, (*found)->options().tenant, shown));
  }
  return found;
}

}  // namespace locksley::daemon

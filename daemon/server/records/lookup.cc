#include "daemon/server/records/lookup.h"

#include <fmt/format.h>

#include "proto/text.h"

namespace locksley::daemon {

namespace {

// The result of looking at one id of one tenant.
enum class Look : std::uint8_t { kNone, kOne, kStop };

// The place at which a batch was found by an id that a user gave.
struct Place {
  enum class How : std::uint8_t {
    kNowhere,
    kNamed,    // the user's own, or as `user/id`
    kOnly,     // the only one of this id, of another user
    kSeveral,  // several users have one: `owner` is the first of them
    kStopped,  // `look` returned kStop
  };
  How how = How::kNowhere;
  const Tenant* owner = nullptr;  // null: kNowhere, kStopped
  std::string_view id{};          // of the owner's batch
};

// Which batch an id means. A user finds its own batches. An admin finds its own first, then
// `user/id`, then the only one of this id.
//
// This is the only place that decides whose batch a command is about. `look` says what is known of
// an id of a tenant. It is called in this order, and kStop ends the search: so no batch of a later
// place is found while an earlier place is in doubt.
template <class LookAt>
Place find_place(const Tenants& tenants, const User& by, std::string_view id, const LookAt& look) {
  const auto place = [&](Look seen, Place::How how, const Tenant& owner, std::string_view its_id) {
    return seen == Look::kStop ? Place{.how = Place::How::kStopped}
                               : Place{.how = how, .owner = &owner, .id = its_id};
  };
  Look seen = look(by.tenant(), id);
  if (seen != Look::kNone) return place(seen, Place::How::kNamed, by.tenant(), id);
  if (!by.is_admin()) return {};
  // Ids may have a '/', names of users have none.
  if (const std::size_t slash = id.find('/'); slash != std::string_view::npos) {
    const std::string_view its_id = id.substr(slash + 1);
    if (const Tenant* const tenant = tenants.find(id.substr(0, slash))) {
      seen = look(*tenant, its_id);
      if (seen != Look::kNone) return place(seen, Place::How::kNamed, *tenant, its_id);
    }
  }
  Place only;
  for (const Tenant& tenant : tenants.all()) {
    seen = look(tenant, id);
    if (seen == Look::kNone) continue;
    if (seen == Look::kStop) return {.how = Place::How::kStopped};
    if (only.owner != nullptr) return {.how = Place::How::kSeveral, .owner = only.owner, .id = id};
    only = {.how = Place::How::kOnly, .owner = &tenant, .id = id};
  }
  return only;
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
  std::uint64_t to_load = 0;
  find_place(registry.tenants(), by, id, [&](const Tenant& tenant, std::string_view its_id) {
    kIoThread.assert_held();
    const Registry::Known known = registry.find_known(tenant, its_id);
    to_load = known.to_load;
    if (to_load != 0) return Look::kStop;
    return known.record == nullptr ? Look::kNone : Look::kOne;
  });
  return to_load;
}

bool is_in_memory_alone(Registry& registry, const User& by, std::string_view id) {
  using enum Place::How;
  const Place place =
      find_place(registry.tenants(), by, id, [&](const Tenant& tenant, std::string_view its_id) {
        kIoThread.assert_held();
        return registry.may_be_taken(tenant, its_id) ? Look::kOne : Look::kNone;
      });
  if (place.how != kNamed && place.how != kOnly) return false;
  const BatchRecord* const record = registry.find_in_memory(*place.owner, place.id);
  return record != nullptr && !record->is_stored();
}

Registry::Found find_batch(Registry& registry, const User& by, std::string_view id) {
  Registry::Found found = nullptr;
  const Place place =
      find_place(registry.tenants(), by, id, [&](const Tenant& tenant, std::string_view its_id) {
        kIoThread.assert_held();
        found = find_own_batch(registry, tenant, its_id);
        if (!found) return Look::kStop;
        return *found == nullptr ? Look::kNone : Look::kOne;
      });
  if (place.how == Place::How::kSeveral) {
    const std::string shown = proto::printable(id);
    return std::unexpected(fmt::format("ERR several users have a batch '{}': say whose, as in '{}/{}'", shown,
                                       place.owner->name, shown));
  }
  if (place.how != Place::How::kOnly) return found;
  if (registry.has_admin_forgotten(by.tenant(), id)) {
    const std::string shown = proto::printable(id);
    return std::unexpected(
        fmt::format("NOBATCH your own batch '{}' was forgotten: write '{}/{}' for the one of that user",
                    shown, place.owner->name, shown));
  }
  // Again: batches that were loaded for other users' ids may have replaced it in memory.
  return find_own_batch(registry, *place.owner, place.id);
}

}  // namespace locksley::daemon

#include "core/lane/slot_times.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"

namespace locksley {

bool SlotTimes::has_room(std::uint32_t first, std::uint32_t width) const {
  return first < size() && width <= size() - first && has_at_most(first, width, kMostLeases - 1);
}

bool SlotTimes::has_at_most(std::uint32_t first, std::uint32_t width, std::size_t leases) const {
  return std::all_of(slots_.begin() + first, slots_.begin() + first + width,
                     [leases](const Slot& slot) { return slot.count <= leases; });
}

std::optional<std::uint32_t> SlotTimes::find(std::uint32_t width) const {
  for (std::size_t leases = width <= idle_ ? 0 : 1; leases < kMostLeases; ++leases) {
    if (const auto first = find_run(width, leases)) return first;
  }
  return std::nullopt;
}

std::optional<std::uint32_t> SlotTimes::find_run(std::uint32_t width, std::size_t leases) const {
  std::uint32_t run = 0;
  for (std::uint32_t slot = 0; slot < size(); ++slot) {
    run = slots_[slot].count <= leases ? run + 1 : 0;
    if (run == width) return slot + 1 - width;
  }
  return std::nullopt;
}

void SlotTimes::occupy(Occupation& lease, std::uint32_t first, std::uint32_t width, Nanoseconds now) {
  check(lease.width == 0 && width != 0 && has_room(first, width), "a lease occupies slots that have no room");
  lease = {.first = first, .width = width, .service = {}, .name = lease.name};
  for (std::uint32_t i = first; i < first + width; ++i) {
    Slot& slot = slots_[i];
    if (slot.count == 0) {
      --idle_;
      slot.since = std::max(now, slot.since);
    } else {
      charge(slot, *slot.leases.front(), now);
    }
    slot.leases[slot.count++] = &lease;
  }
}

void SlotTimes::charge(Slot& slot, Occupation& lease, Nanoseconds now) {
  const Nanoseconds until = std::max(now, slot.since);
  lease.service += until - slot.since;
  slot.since = until;
}

std::optional<std::uint64_t> SlotTimes::ran(Occupation& lease, Nanoseconds now) {
  bool is_in_front = false;
  for (std::uint32_t i = lease.first; i < lease.first + lease.width; ++i) {
    Slot& slot = slots_[i];
    if (slot.leases.front() != &lease) continue;
    is_in_front = true;
    if (slot.count > 1) charge(slot, lease, now);
  }
  if (is_in_front || lease.width == 0) return std::nullopt;
  Slot& slot = slots_[lease.first];
  charge(slot, lease, now);
  std::swap(slot.leases.front(), slot.leases.back());
  return slot.leases.back()->name;
}

void SlotTimes::give_way(const Occupation& lease) {
  for (std::uint32_t i = lease.first; i < lease.first + lease.width; ++i) {
    Slot& slot = slots_[i];
    if (slot.count > 1 && slot.leases.front() == &lease) std::swap(slot.leases.front(), slot.leases.back());
  }
}

Nanoseconds SlotTimes::release(Occupation& lease, Nanoseconds now, bool has_begun) {
  for (std::uint32_t i = lease.first; i < lease.first + lease.width; ++i) {
    Slot& slot = slots_[i];
    const bool is_in_front = slot.leases.front() == &lease;
    if (is_in_front || has_begun) charge(slot, lease, now);
    if (is_in_front) slot.leases.front() = slot.leases.back();
    slot.leases.back() = nullptr;
    if (--slot.count == 0) ++idle_;
  }
  lease.width = 0;
  return lease.service;
}

Nanoseconds SlotTimes::so_far(const Occupation& lease, Nanoseconds now) const {
  Nanoseconds service = lease.service;
  for (std::uint32_t i = lease.first; i < lease.first + lease.width; ++i) {
    if (slots_[i].leases.front() == &lease) service += std::max(Nanoseconds{0}, now - slots_[i].since);
  }
  return service;
}

std::optional<std::uint64_t> SlotTimes::front(std::uint32_t slot) const {
  const Occupation* const lease = slots_[slot].leases.front();
  return lease == nullptr ? std::nullopt : std::optional(lease->name);
}

std::optional<std::uint64_t> SlotTimes::behind(std::uint32_t slot) const {
  const Slot& of = slots_[slot];
  return of.count < kMostLeases ? std::nullopt : std::optional(of.leases.back()->name);
}

std::uint32_t SlotTimes::in_front(const Occupation& lease) const {
  std::uint32_t count = 0;
  for (std::uint32_t i = lease.first; i < lease.first + lease.width; ++i) {
    if (slots_[i].leases.front() == &lease) ++count;
  }
  return count;
}

}  // namespace locksley

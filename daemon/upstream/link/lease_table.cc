#include "daemon/upstream/link/lease_table.h"

#include <utility>

namespace locksley::daemon {

std::vector<LeaseKey> LeaseTable::keys() const {
  std::vector<LeaseKey> keys;
  for (const auto& [key, lease] : leases_) keys.push_back(key);
  return keys;
}

HeldLease* LeaseTable::find(LeaseKey key) {
  const auto found = leases_.find(key);
  return found == leases_.end() ? nullptr : &found->second;
}

HeldLease* LeaseTable::find(std::string_view name) {
  const auto found = by_name_.find(std::string(name));
  return found == by_name_.end() ? nullptr : find(found->second);
}

HeldLease& LeaseTable::add(std::uint32_t slot) {
  const LeaseKey key = ++last_key_;
  HeldLease& lease = leases_[key];
  lease.key = key;
  lease.slot = slot;
  ++in_slots_;
  return lease;
}

void LeaseTable::forget(HeldLease& lease) {
  clear_slot(lease);
  if (!lease.name.empty()) by_name_.erase(lease.name);
  leases_.erase(lease.key);
}

void LeaseTable::set_name(HeldLease& lease, std::string name) {
  by_name_.emplace(name, lease.key);
  lease.name = std::move(name);
}

void LeaseTable::clear_name(HeldLease& lease) {
  by_name_.erase(lease.name);
  lease.name.clear();
}

void LeaseTable::connection_lost() {
  by_name_.clear();
  for (UpstreamSlot& slot : slots_) slot.claims = slot.reclaims = 0;
  for (auto& [key, lease] : leases_) {
    if (!lease.name.empty()) lease.former = std::exchange(lease.name, {});
    lease.held.clear();
  }
}

void LeaseTable::clear_slot(const HeldLease& lease) {
  UpstreamSlot& slot = slots_[lease.slot];
  if (slot.running == lease.key) {
    slot.running = 0;
  } else if (slot.ready == lease.key) {
    slot.ready = 0;
  } else {
    return;
  }
  --in_slots_;
}

}  // namespace locksley::daemon

// The leases that the link holds: by key, by name and by slot.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "daemon/upstream/link/held_lease.h"
#include "daemon/upstream/link/upstream_host.h"

namespace locksley::daemon {

// The existing leases, the name of each on this connection, and the slots that they take.
// LeaseLifecycle decides what happens to them.
//
// A member of the link, and used by its parts; one thread; nothing blocks or fails. A reference to
// a lease is valid until forget(). Memory: two leases for each slot, and leases whose results the
// upstream has not acknowledged.
class LeaseTable {
 public:
  using Leases = std::unordered_map<LeaseKey, HeldLease>;

  explicit LeaseTable(std::uint32_t slots) : slots_(slots) {}
  LeaseTable(const LeaseTable&) = delete;
  LeaseTable& operator=(const LeaseTable&) = delete;

  // ---- Leases ----

  bool empty() const { return leases_.empty(); }
  const Leases& all() const { return leases_; }
  // All keys, for a loop that forgets leases.
  std::vector<LeaseKey> keys() const;
  // Null: the link no longer holds it.
  HeldLease* find(LeaseKey key);
  HeldLease* find(std::string_view name);
  HeldLease& at(LeaseKey key) { return leases_.at(key); }
  // A new lease, with its key; the caller puts it into the slot.
  HeldLease& add(std::uint32_t slot);
  void forget(HeldLease& lease);

  // ---- Names ----

  void set_name(HeldLease& lease, std::string name);
  void clear_name(HeldLease& lease);
  bool has_names() const { return !by_name_.empty(); }
  // Removes the names of all leases, and the pending commands of all slots.
  void connection_lost();

  // ---- Slots ----

  std::span<UpstreamSlot> slots() { return slots_; }
  UpstreamSlot& slot(std::uint32_t number) { return slots_[number]; }
  // The lease leaves its slot, where it ran or was ready.
  void clear_slot(const HeldLease& lease);
  // Leases that are ready or run.
  std::uint64_t in_slots() const { return in_slots_; }

 private:
  Leases leases_;
  std::unordered_map<std::string, LeaseKey> by_name_;
  std::vector<UpstreamSlot> slots_;
  LeaseKey last_key_ = 0;
  std::uint64_t in_slots_ = 0;
};

}  // namespace locksley::daemon

// Which leases occupy the slots of a remote worker, since when, and how much each lease is charged.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/base/job.h"

namespace locksley {

// The slots of one remote worker. A slot has at most two leases. The lease in front is the one
// whose jobs the worker is assumed to run: at first the one claimed first; after ran(), the lease
// of the job that ran. The other one waits at the worker, which hides the round trip.
//
// Each moment in which a slot has a lease is charged to exactly one lease. On a slot with two
// leases these events divide the time, and the lease that pays for the time since the event before
// is:
//   - at the claim of the second lease: the first one;
//   - when a job has run (ran()): the lease of that job. So a worker that runs the job of the lease
//     behind charges that lease;
//   - at the end of a lease (release()): this lease. But a lease that goes back before it has begun
//     is not charged for slots on which it is behind: it has only waited there, and the lease in
//     front of it pays for the whole time. give_way() says that the same is true of a lease in
//     front.
// A lease of several slots may be behind another on all of them when one of its jobs runs. Only one
// slot is then known to run it, so the lease moves to the front of one.
//
// Owned by the code that has the leases; outlives them. One thread at a time. Instants are of any
// one clock; an instant before the last one counts as the last one. Nothing blocks; only allocation
// can fail. Misuse (a third lease on a slot) aborts.
class SlotTimes {
 public:
  static constexpr std::size_t kMostLeases = 2;  // on a slot

  // The slots that one lease occupies. A member of the lease's holder, which must not move while it
  // occupies slots.
  struct Occupation {
    std::uint32_t first = 0;
    std::uint32_t width = 0;  // 0: no slots
    Nanoseconds service{};    // charged so far, not counting the time since the last change on a slot
    std::uint64_t name = 0;   // chosen by the caller, for front() and behind()
  };

  explicit SlotTimes(std::uint32_t slots) : slots_(slots) {}

  std::uint32_t size() const { return static_cast<std::uint32_t>(slots_.size()); }
  std::size_t leases(std::uint32_t slot) const { return slots_[slot].count; }
  // Whether each of these slots has room for a lease. False too if the slots do not exist.
  bool has_room(std::uint32_t first, std::uint32_t width) const;
  // The first of `width` slots side by side that have fewest leases; the lowest of several. None:
  // no room.
  std::optional<std::uint32_t> find(std::uint32_t width) const;
  // Slots without a lease.
  std::uint32_t idle() const { return idle_; }

  // The lease occupies the slots from now on, behind a lease that is there. Needs: has_room(first,
  // width).
  void occupy(Occupation& lease, std::uint32_t first, std::uint32_t width, Nanoseconds now);
  // A job of the lease has ended, or is known to have begun. If the lease is in front on none of
  // its slots, it comes to the front of the lowest one; returns the name of the lease whose place
  // it takes. None: it was in front.
  std::optional<std::uint64_t> ran(Occupation& lease, Nanoseconds now);
  // No job of the lease has begun: on each of its slots that has another lease, that one is in
  // front, and pays for the time since the last event.
  void give_way(const Occupation& lease);
  // Frees the slots of the lease. Returns the lease's whole charge. `has_begun`: whether one of its
  // jobs may have begun.
  Nanoseconds release(Occupation& lease, Nanoseconds now, bool has_begun);
  // What the lease is charged if nothing else happens until `now`.
  Nanoseconds so_far(const Occupation& lease, Nanoseconds now) const;
  // The name of the lease that is in front on this slot. None: it has no lease.
  std::optional<std::uint64_t> front(std::uint32_t slot) const;
  // The name of the lease that is behind it. None: there is none.
  std::optional<std::uint64_t> behind(std::uint32_t slot) const;
  // The number of its slots where the lease is in front.
  std::uint32_t in_front(const Occupation& lease) const;

 private:
  struct Slot {
    std::array<Occupation*, kMostLeases> leases{};  // the first one is in front
    std::size_t count = 0;
    Nanoseconds since{};  // the last event on it: up to here the time is charged
  };
  // The lease pays for the slot up to `now`.
  static void charge(Slot& slot, Occupation& lease, Nanoseconds now);
  bool has_at_most(std::uint32_t first, std::uint32_t width, std::size_t leases) const;
  // The first slot of a run of `width` with at most `leases` leases each.
  std::optional<std::uint32_t> find_run(std::uint32_t width, std::size_t leases) const;

  std::vector<Slot> slots_;
  std::uint32_t idle_ = size();
};

}  // namespace locksley

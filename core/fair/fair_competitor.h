// One competitor that waits on several levels of a clock: in a ring, a tenant or a customer whose
// batches belong to several gates. core/FAIRNESS.md, "Gates", explains why it has a node on each
// level.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/fair/fair_level.h"
#include "core/fair/fair_nodes.h"

namespace locksley {

// The state of one part of a competitor, as opposed to the whole competitor. A member `own` of the
// part.
struct FairPart {
  std::uint64_t shifts = 0;  // FairLevel::shifts() when the part became inactive
  // The executors of this part alone; fair.executors of an active part counts those of its
  // competitor.
  std::uint32_t executors = 0;
  bool is_active = false;  // ready, or with executors
};

// The charge that FairCompetitor::charge() made in advance, and that settle() replaces.
struct FairCharge {
  VirtualTime amount = 0;
  std::uint64_t turn = 0;  // FairClock::turns
};

// One competitor, and its parts: each part is a node of another level, and these levels share one
// clock. A turn of one part is charged to all active parts, so the service that the competitor gets
// at one level counts at the others. A competitor with one part behaves as a single FairNode.
//
// Part is a Node, and has the members `fair` (FairNode) and `own` (FairPart), and home(), the level
// on which it competes. A base of the group; guarded as FairLevel is. Nothing blocks or fails.
template <class Part, class Node = Part>
class FairCompetitor {
 public:
  using Level = FairLevel<Node>;

  // Weight, executors and usage are those of the whole competitor. All other members are those of a
  // single node that is charged for all turns: its key, slack, entry, turn, remainder and pending
  // charges. While exactly one part is active they are out of date, and that part has the current
  // values (update_key()).
  FairNode fair LOCKSLEY_GUARDED_BY(kFairNodes);
  std::vector<std::unique_ptr<Part>> parts LOCKSLEY_GUARDED_BY(kFairNodes);

  // Updates the levels after any change of `part`. A part that becomes ready starts where its
  // competitor does, and not before its own finish.
  void set_ready(Part& part, bool ready, JobLength length) LOCKSLEY_REQUIRES(kFairNodes) {
    if (ready && !part.fair.is_ready()) {
      if (parts.size() > 1) {
        enter(part);
        part.home().admit(part, length);
        return;
      }
      activate(part);
    }
    part.home().set_ready(part, ready, length);
    if (!ready && part.own.is_active && part.own.executors == 0) rest(part);
  }

  // `part`, which is ready, takes a turn that is expected to cost `service`. The caller then calls
  // set_ready().
  [[gnu::always_inline]] FairCharge charge(Part& part, std::int64_t service) LOCKSLEY_REQUIRES(kFairNodes) {
    if (active_ > 1) [[unlikely]]
      update_key(clock_of(part));
    const VirtualTime charged = part.home().charge(part, service);
    ++part.own.executors;
    ++fair.executors;
    if (active_ > 1) [[unlikely]]
      charge_others(part, charged);
    return {.amount = charged, .turn = part.fair.turn};
  }
  // An executor joins without a charge.
  FairCharge join(Part& part) LOCKSLEY_REQUIRES(kFairNodes) {
    if (!part.own.is_active) {
      update_key(clock_of(part));
      activate(part);
      if (parts.size() > 1) take_place(part, part.own.shifts != part.home().shifts());
    }
    ++part.own.executors;
    ++part.fair.executors;
    ++fair.executors;
    if (active_ > 1) charge_others(part, 0);
    return {.turn = clock_of(part).turns};
  }
  // A turn of `part` is over. The service that it used replaces the charge: `service` at its own
  // level, and `shared` at the others. The caller then calls set_ready().
  void settle(Part& part, const FairCharge& charged, std::int64_t service, std::int64_t shared)
      LOCKSLEY_REQUIRES(kFairNodes) {
    part.home().settle(part, charged.amount, charged.turn < part.fair.entry, service);
    --part.own.executors;
    --fair.executors;
    if (active_ > 1) [[unlikely]]
      settle_others(part, charged, shared);
  }

  // A turn of `part` that still runs has used `service` so far: FairLevel::charge_so_far(). The
  // caller then calls set_ready().
  void charge_so_far(Part& part, FairCharge& charged, std::int64_t service) LOCKSLEY_REQUIRES(kFairNodes) {
    const VirtualTime before = charged.amount;
    charged.amount = Level::charge_so_far(part.fair, before, charged.turn < part.fair.entry, service);
    const VirtualTime by = charged.amount - before;
    if (by == 0 || active_ <= 1) return;
    Level::change_charge(fair, by, charged.turn < fair.entry);
    for_others(part, [&](Part& other) LOCKSLEY_REQUIRES(kFairNodes) {
      Level::change_charge(other.fair, by, charged.turn < other.fair.entry);
    });
    limit_others(part, charged.amount, by);
  }
  // A turn of `part`, which is active, counts as this many executors more; modulo 2^32. The caller
  // then calls set_ready().
  void change_executors(Part& part, std::uint32_t by) LOCKSLEY_REQUIRES(kFairNodes) {
    part.own.executors += by;
    part.fair.executors += by;
    fair.executors += by;
    if (active_ <= 1) return;
    for_others(part, [&](Part& other) LOCKSLEY_REQUIRES(kFairNodes) {
      other.fair.executors += by;
      other.home().update(other);
    });
  }

  void set_weight(FairClock& clock, std::uint32_t weight) LOCKSLEY_REQUIRES(kFairNodes) {
    clock.set_weight(fair, weight);
    for (const auto& part : parts) {
      if (part->own.is_active) part->home().change_weight(std::uint64_t{weight} - part->fair.weight);
      clock.set_weight(part->fair, weight);
    }
  }
  // The service that `part` has received at its level no longer counts.
  void start_anew(Part& part) LOCKSLEY_REQUIRES(kFairNodes) {
    part.home().start_anew(part);
    part.own.shifts = part.home().shifts();
    if (parts.size() > 1) return;
    fair.key = part.home().clock().now;
    fair.slack = 0;
    fair.begin_entry(part.fair.entry);
  }
  // Removes `part`, which is inactive, before its level ceases to exist.
  void remove(Part& part) LOCKSLEY_REQUIRES(kFairNodes) {
    std::erase_if(parts, [&](const auto& each) { return each.get() == &part; });
    // A remaining part takes over the competitor's lead. If it is the only one, it is the
    // competitor from now on.
    if (!parts.empty() && active_ == 0) {
      Part& left = *parts[0];
      left.fair.key = std::max(left.fair.key, left.home().key_of(fair.key));
    }
  }

  // This competitor, which is new, competes in the place of `below` from now on. It has the same
  // number of parts, on the same levels, in the same order.
  void take_place_of(FairCompetitor& below) LOCKSLEY_REQUIRES(kFairNodes) {
    fair = below.fair;
    active_ = below.active_;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      Part& part = *parts[i];
      part.fair = below.parts[i]->fair;
      part.own = below.parts[i]->own;
      if (part.fair.is_ready()) part.home().replace(*below.parts[i], part);
    }
  }
  // After take_place_of(*this): the parts of this competitor belong to levels of another clock now.
  // It starts there at the virtual time, with the executors that it has; their turns count as begun
  // before its entry, and as not charged yet. `is_ready(part)`: whether the part is.
  template <class IsReady>
  void start_in(FairClock& clock, std::uint32_t weight, IsReady is_ready) LOCKSLEY_REQUIRES(kFairNodes) {
    FairNode start;
    start.key = clock.now;
    start.entry = start.turn = ++clock.turns;
    start.weight = weight;
    for (const auto& part : parts) {
      const JobLength length = part->fair.length;
      part->fair = start;
      part->fair.key = part->home().now();
      part->own.shifts = part->home().shifts();
      if (part->own.is_active) {
        part->fair.executors = fair.executors;
        part->home().change_weight(weight);
      }
      if (part->own.is_active && is_ready(*part)) part->home().admit(*part, length);
    }
    start.executors = fair.executors;
    start.usage = fair.usage;
    fair = start;
  }

  // After `part` was moved back: the competitor's key is at most that of the part.
  void limit_key(Part& part) LOCKSLEY_REQUIRES(kFairNodes) {
    if (active_ > 1) fair.key = std::min(fair.key, time_of(part));
  }

  bool has_ready() const LOCKSLEY_REQUIRES(kFairNodes) {
    return std::ranges::any_of(
        parts, [](const auto& each) LOCKSLEY_REQUIRES(kFairNodes) { return each->fair.is_ready(); });
  }
  // How many parts are ready or have executors.
  std::uint32_t active() const LOCKSLEY_REQUIRES(kFairNodes) { return active_; }

 private:
  static FairClock& clock_of(Part& part) LOCKSLEY_REQUIRES(kFairNodes) { return part.home().clock(); }
  static VirtualTime time_of(Part& part) LOCKSLEY_REQUIRES(kFairNodes) {
    return part.home().time_of(part.fair.key);
  }

  void activate(Part& part) LOCKSLEY_REQUIRES(kFairNodes) {
    if (part.own.is_active) return;
    part.own.is_active = true;
    part.fair.executors = fair.executors;
    part.home().change_weight(fair.weight);
    ++active_;
  }

  // `part` is neither ready nor has executors.
  void rest(Part& part) LOCKSLEY_REQUIRES(kFairNodes) {
    part.own.is_active = false;
    part.own.shifts = part.home().shifts();
    part.fair.executors = 0;
    part.fair.pending = part.fair.pending_before = 0;
    part.home().change_weight(-std::uint64_t{fair.weight});
    if (--active_ == 0) {
      fair.key = time_of(part);
      fair.pending = fair.pending_before = 0;
    } else if (active_ == 1) {
      // The part that is left has the values of the competitor from now on: it must not start
      // before the competitor.
      Part& last = only();
      if (!last.fair.is_ready() && time_of(last) < fair.key) take_place(last, /*own_counts=*/false);
    }
  }

  Part& only() const LOCKSLEY_REQUIRES(kFairNodes) {
    for (const auto& part : parts) {
      if (part->own.is_active) return *part;
    }
    return *parts.front();
  }

  // Brings `fair` up to date before parts are compared with it. Where levels were shifted, its key
  // becomes at least that of the first ready part.
  void update_key(FairClock& clock) LOCKSLEY_REQUIRES(kFairNodes) {
    if (active_ == 1) {
      Part& part = only();
      fair.key = time_of(part);
      fair.pending = part.fair.pending;
      fair.pending_before = part.fair.pending_before;
      fair.slack = part.fair.slack;
      fair.entry = part.fair.entry;
      fair.turn = part.fair.turn;
      fair.remainder = part.fair.remainder;
      return;
    }
    VirtualTime least = std::numeric_limits<VirtualTime>::max();
    for (const auto& part : parts) {
      if (part->fair.is_ready()) least = std::min(least, time_of(*part));
    }
    if (least != std::numeric_limits<VirtualTime>::max() && least > fair.key) {
      const std::uint64_t turn = fair.turn;
      clock.enter(fair, least);
      fair.turn = turn;  // it has waited as long as before
    }
  }

  // `part` becomes ready; the competitor has other parts.
  void enter(Part& part) LOCKSLEY_REQUIRES(kFairNodes) {
    FairClock& clock = clock_of(part);
    if (active_ != 0) update_key(clock);
    const bool is_new = !has_ready();
    if (is_new) {
      if (active_ == 0) limit_to_parts();
      clock.enter(fair, clock.now);
    }
    const bool was_active = part.own.is_active;
    activate(part);
    take_place(part, was_active || part.own.shifts != part.home().shifts());
  }

  // No part is active. Levels may have moved back with their nodes since the last part rested: the
  // competitor's key must not be ahead of all its parts.
  void limit_to_parts() LOCKSLEY_REQUIRES(kFairNodes) {
    VirtualTime latest = std::numeric_limits<VirtualTime>::min();
    for (const auto& part : parts) latest = std::max(latest, time_of(*part));
    fair.key = std::min(fair.key, latest);
  }

  // `part` gets the competitor's key. With `own_counts` it keeps its own key, if that is later: the
  // key of an active part counts, and that of a part whose level was shifted since the part became
  // inactive.
  void take_place(Part& part, bool own_counts) LOCKSLEY_REQUIRES(kFairNodes) {
    const VirtualTime key = part.home().key_of(fair.key);
    part.fair.turn = fair.turn;
    if (own_counts && part.fair.key > key) {
      part.fair.slack = key - part.fair.key;
      if (part.own.executors == 0) {
        part.fair.pending = fair.pending;
        part.fair.pending_before = fair.pending_before;
        part.fair.begin_entry(++clock_of(part).turns);
      }
      return;
    }
    part.fair.key = key;
    part.fair.pending = fair.pending;
    part.fair.pending_before = fair.pending_before;
    part.fair.slack = fair.slack;
    part.fair.entry = fair.entry;
    part.fair.remainder = fair.remainder;
  }

  void charge_others(Part& part, VirtualTime charged) LOCKSLEY_REQUIRES(kFairNodes) {
    fair.key += charged;
    fair.pending += charged;
    fair.turn = part.fair.turn;
    for_others(part, [&](Part& other) LOCKSLEY_REQUIRES(kFairNodes) {
      other.fair.key += charged;
      other.fair.pending += charged;
      other.fair.turn = part.fair.turn;
      ++other.fair.executors;
      other.home().update(other);
    });
  }

  void settle_others(Part& part, const FairCharge& charged, std::int64_t shared)
      LOCKSLEY_REQUIRES(kFairNodes) {
    Level::correct(fair, charged.amount, charged.turn < fair.entry, shared);
    for_others(part, [&](Part& other) LOCKSLEY_REQUIRES(kFairNodes) {
      other.home().settle(other, charged.amount, charged.turn < other.fair.entry, shared);
    });
    const VirtualTime turn = Level::charge_of(fair, shared);
    limit_others(part, turn, turn);
  }

  // After a turn of `part` was charged `turn` in all, `most` of which just now. Moves every other
  // active part back until it is at most `turn` ahead of the competitor, but by no more than
  // `most`. Otherwise, where levels were shifted, a part would be charged for time that no node of
  // its level could have received.
  void limit_others(Part& part, VirtualTime turn, VirtualTime most) LOCKSLEY_REQUIRES(kFairNodes) {
    update_key(clock_of(part));
    for_others(part, [&](Part& other) LOCKSLEY_REQUIRES(kFairNodes) {
      const VirtualTime beyond = std::min(time_of(other) - fair.key - turn, most);
      if (beyond > 0) other.fair.key -= beyond;
      other.home().update(other);
    });
  }

  // Calls visit() for the other parts that are active.
  template <class Visit>
  void for_others(Part& part, Visit visit) LOCKSLEY_REQUIRES(kFairNodes) {
    for (const auto& other : parts) {
      if (other->own.is_active && other.get() != &part) visit(*other);
    }
  }

  std::uint32_t active_ LOCKSLEY_GUARDED_BY(kFairNodes) = 0;
};

}  // namespace locksley

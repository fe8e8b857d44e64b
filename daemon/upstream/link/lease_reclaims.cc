#include "daemon/upstream/link/lease_reclaims.h"

#include <algorithm>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/index_ranges.h"

namespace locksley::daemon {

using State = HeldLease::State;

bool LeaseReclaims::begin() {
  names_leases_ = true;
  // Leases that have ended come first: they free their slots as soon as their results are handed
  // in.
  const auto add = [this](State state) {
    for (const auto& [key, lease] : leases_.all()) {
      if (lease.state == state && !lease.is_lost && !lease.range.empty()) to_reclaim_.push_back(key);
    }
  };
  add(State::kEnded);
  add(State::kRunning);
  add(State::kReady);
  return pump();
}

std::optional<std::uint32_t> LeaseReclaims::slot_for(const HeldLease& lease) {
  const std::span<UpstreamSlot> slots = leases_.slots();
  if (lease.state == State::kEnded) {
    const auto slot = std::ranges::min_element(slots, {}, &UpstreamSlot::reclaims);
    if (slot->reclaims >= UpstreamSlot::kMostLeases) return std::nullopt;
    return static_cast<std::uint32_t>(slot - slots.begin());
  }
  if (slots[lease.slot].reclaims >= UpstreamSlot::kMostLeases) return std::nullopt;
  return lease.slot;
}

bool LeaseReclaims::pump() {
  while (!to_reclaim_.empty()) {
    HeldLease* const lease = leases_.find(to_reclaim_.front());
    if (lease == nullptr || lease->is_lost) {
      to_reclaim_.pop_front();
      continue;
    }
    const auto slot = slot_for(*lease);
    if (!slot) return false;
    to_reclaim_.pop_front();
    ++leases_.slot(*slot).reclaims;
    ++reclaims_out_;
    const bool names_lease = names_leases_ && !lease->former.empty();
    proto::CommandWriter writer = pipeline_.begin({.kind = AwaitedReply::Kind::kReclaim,
                                                   .slot = *slot,
                                                   .lease = lease->key,
                                                   .names_lease = names_lease},
                                                  names_lease ? 9 : 7);
    writer.argument("RECLAIM");
    writer.argument(lease->batch);
    writer.argument(lease->attempt);
    writer.argument(lease->range.low);
    writer.argument(lease->range.high);
    writer.argument("SLOT");
    writer.argument(*slot);
    if (!names_lease) continue;
    writer.argument("LEASE");
    writer.argument(lease->former);
  }
  if (reclaims_out_ != 0) return false;
  for (UpstreamSlot& slot : leases_.slots()) slot.reclaims = 0;
  return true;
}

bool LeaseReclaims::on_reply(const AwaitedReply& awaited, ReplyCursor reply) {
  --reclaims_out_;
  HeldLease* const lease = leases_.find(awaited.lease);
  if (reply.is_error()) {
    --leases_.slot(awaited.slot).reclaims;
    if (awaited.names_lease && reply.text().starts_with("ERR ")) {
      // An upstream of an earlier version does not know LEASE.
      names_leases_ = false;
      to_reclaim_.push_front(awaited.lease);
    } else if (lease != nullptr) {
      lifecycle_.lose(*lease);
    }
    return pump();
  }
  const auto is_wrong = [this] {
    pipeline_.fail("the reply to RECLAIM is malformed");
    return false;
  };
  const std::uint64_t elements = reply.array();
  std::string name;
  if (elements >= 2) name = reply.text();
  std::vector<IndexRange> held;
  for (std::uint64_t ranges = reply.array(); ranges != 0 && !reply.is_bad(); --ranges) {
    if (reply.array() != 2) return is_wrong();
    const std::uint64_t low = reply.count();
    const std::uint64_t high = reply.count();
    if (low >= high || (!held.empty() && low < held.back().high)) return is_wrong();
    held.push_back({low, high});
  }
  std::optional<std::uint64_t> attempt;
  if (elements >= 3) attempt = reply.count();
  if (reply.is_bad() || name.empty() || held.empty()) return is_wrong();
  if (attempt > std::numeric_limits<std::uint32_t>::max()) return is_wrong();
  ++reclaimed_leases_;
  const bool is_over = lease == nullptr || lease->is_lost || lease->state == State::kEnded;
  if (lease == nullptr || lease->is_lost) {
    pipeline_.send({.kind = AwaitedReply::Kind::kYield, .lease = awaited.lease},
                   {"YIELD", name});  // it has ended meanwhile
  } else {
    leases_.set_name(*lease, std::move(name));
    lease->held = std::move(held);
    if (attempt) lease->attempt = static_cast<std::uint32_t>(*attempt);
    reclaimed(*lease);
  }
  if (is_over) --leases_.slot(awaited.slot).reclaims;
  return pump();
}

void LeaseReclaims::reclaimed(HeldLease& lease) {
  if (lease.state == State::kReady) {
    if (count_of(lease.held) != lease.range.size()) lifecycle_.give_back(lease);
    return;
  }
  if (lease.state == State::kRunning) {
    // Other workers have the jobs from `high` on; jobs that were withdrawn since RECLAIM was sent
    // go back.
    const std::uint64_t high = lease.held.back().high;
    if (high < lease.range.high) {
      lifecycle_.cut(lease, high);
    } else if (high > lease.range.high) {
      lifecycle_.yield(lease, lease.range.high);
    }
  }
  const std::uint64_t handed_in = results_.hand_in(lease);
  if (lease.state != State::kEnded) return;
  lease.must_yield = handed_in < count_of(lease.held);
  lifecycle_.yield_rest(lease);
}

void LeaseReclaims::connection_lost() {
  to_reclaim_.clear();
  reclaims_out_ = 0;
}

}  // namespace locksley::daemon

// RECLAIM: the leases that the link held on the connection before.
#include <algorithm>
#include <utility>

#include "daemon/upstream/upstream_link.h"

namespace locksley::daemon {

using State = HeldLease::State;

void UpstreamLink::begin_reclaims() {
  phase_ = Phase::kReclaiming;
  // Leases that have ended come first: they free their slots as soon as their results are handed in.
  const auto add = [this](State state) {
    for (const auto& [key, lease] : leases_) {
      if (lease.state == state && !lease.is_lost && !lease.range.empty()) to_reclaim_.push_back(key);
    }
  };
  add(State::kEnded);
  add(State::kRunning);
  add(State::kReady);
  pump_reclaims();
}

void UpstreamLink::lose_all() {
  std::vector<LeaseKey> keys;
  for (const auto& [key, lease] : leases_) keys.push_back(key);
  for (const LeaseKey key : keys) lose(leases_.at(key));
}

std::optional<std::uint32_t> UpstreamLink::reclaim_slot(const HeldLease& lease) const {
  if (lease.state == State::kEnded) {
    const auto slot = std::ranges::min_element(slots_, {}, &UpstreamSlot::reclaims);
    if (slot->reclaims >= UpstreamSlot::kMostLeases) return std::nullopt;
    return static_cast<std::uint32_t>(slot - slots_.begin());
  }
  if (slots_[lease.slot].reclaims >= UpstreamSlot::kMostLeases) return std::nullopt;
  return lease.slot;
}

void UpstreamLink::pump_reclaims() {
  while (!to_reclaim_.empty()) {
    HeldLease* const lease = find(to_reclaim_.front());
    if (lease == nullptr || lease->is_lost) {
      to_reclaim_.pop_front();
      continue;
    }
    const auto slot = reclaim_slot(*lease);
    if (!slot) return;
    to_reclaim_.pop_front();
    ++slots_[*slot].reclaims;
    ++reclaims_out_;
    proto::CommandWriter writer =
        begin_command({.kind = Kind::kReclaim, .slot = *slot, .lease = lease->key}, 7);
    writer.argument("RECLAIM");
    writer.argument(lease->batch);
    writer.argument(lease->attempt);
    writer.argument(lease->range.low);
    writer.argument(lease->range.high);
    writer.argument("SLOT");
    writer.argument(*slot);
  }
  if (reclaims_out_ != 0) return;
  for (UpstreamSlot& slot : slots_) slot.reclaims = 0;
  phase_ = Phase::kServing;
}

void UpstreamLink::on_reclaim(const AwaitedReply& awaited, ReplyCursor reply) {
  --reclaims_out_;
  HeldLease* const lease = find(awaited.lease);
  if (reply.is_error()) {
    --slots_[awaited.slot].reclaims;
    if (lease != nullptr) lose(*lease);
    return pump_reclaims();
  }
  std::string name;
  if (reply.array() >= 2) name = reply.text();
  std::uint64_t high = 0;  // one after the last job that this process holds again
  std::uint64_t count = 0;
  for (std::uint64_t ranges = reply.array(); ranges != 0 && !reply.is_bad(); --ranges) {
    if (reply.array() != 2) break;
    const std::uint64_t low = reply.count();
    high = std::max(high, reply.count());
    if (low < high) count += high - low;
  }
  if (reply.is_bad() || name.empty() || high == 0) return fail("the reply of RECLAIM is not one");
  ++stats_.reclaimed_leases;
  const bool is_over = lease == nullptr || lease->is_lost || lease->state == State::kEnded;
  if (lease == nullptr || lease->is_lost) {
    send_command({.kind = Kind::kYield, .lease = awaited.lease}, {"YIELD", name});  // it has ended meanwhile
  } else {
    set_name(*lease, std::move(name));
    reclaimed(*lease, count, high);
  }
  if (is_over) --slots_[awaited.slot].reclaims;
  pump_reclaims();
}

void UpstreamLink::reclaimed(HeldLease& lease, std::uint64_t count, std::uint64_t high) {
  if (lease.state == State::kReady) {
    if (count != lease.range.size()) give_back(lease);
    return;
  }
  // Other workers have the jobs from `high` on; jobs that were withdrawn since RECLAIM was sent go back.
  if (lease.state == State::kEnded) {
    lease.must_yield = lease.must_yield || high > lease.range.high;
  } else if (high < lease.range.high) {
    cut(lease, high);
  } else if (high > lease.range.high) {
    yield(lease, lease.range.high);
  }
  hand_in(lease);
}

void UpstreamLink::hand_in(HeldLease& lease) {
  for (const std::uint64_t id : lease.results) send_results(id);
  if (lease.state == State::kEnded) yield_rest(lease);
}

}  // namespace locksley::daemon

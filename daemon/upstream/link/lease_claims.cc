#include "daemon/upstream/link/lease_claims.h"

#include <algorithm>
#include <span>
#include <utility>

#include "daemon/upstream/replies/leased_jobs.h"

namespace locksley::daemon {

UpstreamSlot* LeaseClaims::free_slot(std::uint32_t most) {
  const auto slot = std::ranges::min_element(leases_.slots(), {}, &UpstreamSlot::taken);
  return slot->taken() <= most ? &*slot : nullptr;
}

void LeaseClaims::pause() {
  // After a refusal, or an empty reply that came too early, the next CLAIM waits for this long.
  constexpr std::chrono::milliseconds kPause{100};
  claim_at_ = pipeline_.now() + kPause;
}

void LeaseClaims::claim(bool is_allowed) {
  puts_off_ = false;
  if (!is_allowed || upstream_drains_ || pipeline_.now() < claim_at_) return;
  const AwaitedReply* const last = pipeline_.last();
  if (last != nullptr && last->blocks) {
    // The waiting CLAIM stays, unless it is for a slot that has a lease while another slot has
    // none: the next CLAIM ends it.
    const bool is_early = leases_.slot(last->slot).leases() != 0;
    if (!is_early || free_slot(0) == nullptr) return;
  }
  UpstreamSlot* slot = free_slot(UpstreamSlot::kMostLeases - 1);
  if (slot == nullptr) return;
  // The last CLAIM waits. It does not ask for a second lease of one slot while another slot has
  // none: the lease would wait for a long job while the other slot is idle.
  const std::uint32_t most = slot->taken();
  for (std::uint32_t left = burst_; slot != nullptr;) {
    const auto chosen = static_cast<std::uint32_t>(slot - leases_.slots().data());
    ++slot->claims;
    slot = --left != 0 ? free_slot(most) : nullptr;
    const bool blocks = slot == nullptr;
    proto::CommandWriter writer = pipeline_.begin(
        {.kind = AwaitedReply::Kind::kClaim, .slot = chosen, .blocks = blocks}, blocks ? 5 : 3);
    writer.argument("CLAIM");
    writer.argument("SLOT");
    writer.argument(chosen);
    if (!blocks) continue;
    writer.argument("BLOCK");
    writer.argument(block_.count());
  }
}

HeldLease* LeaseClaims::on_reply(const AwaitedReply& awaited, ReplyCursor reply, std::string_view bytes) {
  constexpr std::uint32_t kMostClaims = 64;  // at once
  UpstreamSlot& slot = leases_.slot(awaited.slot);
  --slot.claims;
  if (reply.is_error()) {
    if (reply.text().starts_with("DRAINING")) upstream_drains_ = true;
    burst_ = 1;
    pause();
    return nullptr;
  }
  if (reply.is_null()) {
    if (!awaited.blocks) burst_ = 1;
    const bool is_early =
        awaited.blocks && pipeline_.is_idle() && pipeline_.now() - awaited.sent < block_ / 2;
    if (is_early) pause();
    return nullptr;
  }
  auto jobs = read_leased_jobs(bytes);
  if (!jobs) {
    pipeline_.fail(std::move(jobs.error()));
    return nullptr;
  }
  // Not for leases that each come after the end of the previous one: of several CLAIMs all but one
  // would get null.
  if (leases_.in_slots() != 0) burst_ = std::min(2 * burst_, kMostClaims);
  puts_off_ = awaited.blocks;
  leased_jobs_ += jobs->range.size();

  HeldLease& lease = leases_.add(awaited.slot);
  lease.batch = jobs->batch;
  lease.attempt = jobs->attempt;
  lease.range = jobs->range;
  lease.has_timeout = jobs->timeout.count() != 0;
  leases_.set_name(lease, std::move(jobs->lease));
  lease.jobs = *std::move(jobs);
  if (slot.ready != 0) {
    pipeline_.fail("it gives a slot more than two leases");
    return nullptr;
  }
  slot.ready = lease.key;
  return &lease;
}

void LeaseClaims::connection_lost() {
  burst_ = 1;
  puts_off_ = false;
  claim_at_ = Nanoseconds{0};
  upstream_drains_ = false;
}

std::optional<Nanoseconds> LeaseClaims::next_claim() const {
  return claim_at_ > pipeline_.now() ? std::optional(claim_at_) : std::nullopt;
}

}  // namespace locksley::daemon

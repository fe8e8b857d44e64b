#include "daemon/upstream/link/lease_lifecycle.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace locksley::daemon {

using State = HeldLease::State;

// ---- Running ----

void LeaseLifecycle::begin_ready(std::uint32_t number) {
  UpstreamSlot& slot = leases_.slot(number);
  if (slot.running != 0 || slot.ready == 0) return;
  HeldLease& lease = leases_.at(std::exchange(slot.ready, 0));
  slot.running = lease.key;
  begin(lease);
}

void LeaseLifecycle::begin(HeldLease& lease) {
  lease.state = State::kRunning;
  lease.began = pipeline_.now();
  lease.jobs.range = lease.range;
  lease.jobs.attempt = lease.attempt;
  if (!host_.begin(lease.key, std::move(lease.jobs))) return ended(lease.key);
  beats_.begun(lease);
}

void LeaseLifecycle::ended(LeaseKey key) {
  // The most by which a put-off CLAIM delays jobs for an idle slot while another slot runs some. A
  // guess: two wake-ups of a busy machine, and the shortest jobs.
  constexpr std::chrono::microseconds kShort{200};
  HeldLease* const lease = leases_.find(key);
  if (lease == nullptr) return;
  last_was_short_ = pipeline_.now() - lease->began <= kShort;
  lease->state = State::kEnded;
  lease->must_yield = lease->settled < lease->range.size();
  const std::uint32_t slot = lease->slot;
  leases_.clear_slot(*lease);
  if (lease->is_lost) {
    leases_.forget(*lease);
  } else {
    const bool has_name = !lease->name.empty();
    // A lease without a name cannot be handed back: it went back with the connection.
    if (!has_name && lease->results.empty()) {
      leases_.forget(*lease);
    } else if (has_name) {
      yield_rest(*lease);
    }
  }
  beats_.drop_ended_looks();
  begin_ready(slot);
}

// ---- Going back ----

void LeaseLifecycle::yield_rest(HeldLease& lease) {
  if (std::exchange(lease.must_yield, false)) yield(lease, std::nullopt);
  forget_if_over(lease);
}

void LeaseLifecycle::yield(HeldLease& lease, std::optional<std::uint64_t> from) {
  proto::CommandWriter writer =
      pipeline_.begin({.kind = AwaitedReply::Kind::kYield, .lease = lease.key}, from ? 3 : 2);
  writer.argument("YIELD");
  writer.argument(lease.name);
  if (from) writer.argument(*from);
}

void LeaseLifecycle::cut(HeldLease& lease, std::uint64_t at) {
  at = std::clamp(at, lease.range.low, lease.range.high);
  switch (lease.state) {
    case State::kEnded:
      return;
    case State::kReady:
      if (at == lease.range.low) return give_back(lease);
      break;
    case State::kRunning:
      at = std::clamp(host_.withdraw(lease.key, at), at, lease.range.high);
  }
  lease.range.high = at;
  if (!lease.name.empty()) yield(lease, at);
}

void LeaseLifecycle::stop(HeldLease& lease) {
  if (lease.state == State::kReady) return give_back(lease);
  if (lease.state == State::kRunning && !std::exchange(lease.is_stopping, true)) host_.stop(lease.key);
}

void LeaseLifecycle::give_back(HeldLease& lease) {
  // LEAVE hands everything back.
  if (!lease.name.empty() && !pipeline_.has_sent_leave()) yield(lease, std::nullopt);
  leases_.forget(lease);
}

void LeaseLifecycle::lose(HeldLease& lease) {
  if (lease.is_lost) return;
  lease.is_lost = true;
  ++lost_leases_;
  results_.drop_all_of(lease);
  leases_.clear_name(lease);
  if (lease.state == State::kRunning) return stop(lease);
  leases_.forget(lease);
}

void LeaseLifecycle::forget_if_over(HeldLease& lease) {
  if (lease.state == State::kEnded && lease.results.empty() && !lease.must_yield) leases_.forget(lease);
}

// ---- All leases ----

void LeaseLifecycle::drain() {
  for (const LeaseKey key : leases_.keys()) {
    HeldLease* lease = leases_.find(key);
    if (lease != nullptr) cut(*lease, lease->range.low);
    // Jobs that an executor has claimed but not started would wait here, where perhaps no executor
    // is left for them.
    lease = leases_.find(key);
    if (lease != nullptr && lease->state == State::kRunning) host_.finish(key);
  }
}

void LeaseLifecycle::stop_all() {
  for (const LeaseKey key : leases_.keys()) stop(leases_.at(key));
}

void LeaseLifecycle::lose_all() {
  for (const LeaseKey key : leases_.keys()) lose(leases_.at(key));
}

void LeaseLifecycle::forget_all() {
  for (const LeaseKey key : leases_.keys()) leases_.forget(leases_.at(key));
}

void LeaseLifecycle::connection_lost(bool keeps_ready) {
  for (const LeaseKey key : leases_.keys()) {
    HeldLease& lease = leases_.at(key);
    const bool has_ended = lease.state == State::kEnded && lease.results.empty();
    if (has_ended || (!keeps_ready && lease.state == State::kReady)) leases_.forget(lease);
  }
}

// ---- Replies ----

void LeaseLifecycle::on_settle(const AwaitedReply& awaited, ReplyCursor reply) {
  HeldLease* const lease = leases_.find(awaited.lease);
  if (!reply.is_error()) {
    if (reply.array() < 2) return pipeline_.fail("the reply to SETTLE is malformed");
    settled_jobs_ += reply.count();
    if (reply.is_bad()) return pipeline_.fail("the reply to SETTLE is malformed");
    if (results_.drop(lease, awaited.results) && lease != nullptr) forget_if_over(*lease);
    return;
  }
  const std::string_view error = reply.text();
  // The upstream closes the connection for lack of memory. The results go on the next one.
  if (error.starts_with("QUEUEFULL")) return pipeline_.fail(std::string(error));
  if (lease == nullptr) return;
  if (error.starts_with("LOST")) return lose(*lease);
  // The results were refused, and would be refused again: their jobs go back.
  const std::optional<std::uint64_t> jobs = results_.drop(lease, awaited.results);
  if (!jobs) return;
  lease->settled -= *jobs;
  if (lease->state == State::kEnded) lease->must_yield = true;
  if (lease->must_yield) yield_rest(*lease);
}

void LeaseLifecycle::on_yield(const AwaitedReply& awaited, ReplyCursor reply) {
  if (!reply.is_error()) {
    yielded_jobs_ += reply.count();
    if (reply.is_bad()) pipeline_.fail("the reply of YIELD is not one");
    return;
  }
  HeldLease* const lease = leases_.find(awaited.lease);
  if (lease != nullptr && reply.text().starts_with("LOST")) lose(*lease);
}

}  // namespace locksley::daemon

// SETTLE and YIELD: how results and jobs go back.
#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "daemon/upstream/link/upstream_link.h"

namespace locksley::daemon {

using State = HeldLease::State;

// ---- Results ----

void UpstreamLink::settle(LeaseKey key, JobStatus status, std::uint64_t first, std::uint64_t count,
                          std::string outputs, Nanoseconds now) {
  pipeline_.advance(now);
  HeldLease* const lease = leases_.find(key);
  if (lease == nullptr || lease->is_lost) return;
  results_.keep(*lease, {.lease = key,
                         .status = status,
                         .first = first,
                         .count = count,
                         .outputs = std::move(outputs),
                         .news = std::exchange(lease->last_news, {})});
}

bool UpstreamLink::try_send_news(LeaseKey key, std::uint64_t index, const JobNews& news, Nanoseconds now) {
  pipeline_.advance(now);
  const HeldLease* const lease = leases_.find(key);
  if (lease == nullptr || lease->name.empty() || pipeline_.output().size() > kMostUnsent) return false;
  results_.send_note(*lease, news.words(index));
  return true;
}

void UpstreamLink::keep_last_news(LeaseKey key, std::uint64_t index, const JobNews& news) {
  if (HeldLease* const lease = leases_.find(key)) lease->last_news = news.words(index);
}

void UpstreamLink::on_settle(const AwaitedReply& awaited, ReplyCursor reply) {
  HeldLease* const lease = leases_.find(awaited.lease);
  if (!reply.is_error()) {
    if (reply.array() < 2) return pipeline_.fail("the reply of SETTLE is not one");
    stats_.settled_jobs += reply.count();
    if (reply.is_bad()) return pipeline_.fail("the reply of SETTLE is not one");
    if (results_.drop(lease, awaited.results) && lease != nullptr) forget_if_over(*lease);
    return;
  }
  const std::string_view error = reply.text();
  // For want of memory the upstream closes the connection. The results go on the next one.
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

// ---- Jobs that go back ----

void UpstreamLink::ended(LeaseKey key, Nanoseconds now) {
  // So much later at most does an idle slot get jobs that come while another slot runs some. A
  // guess: two wake-ups of a busy machine, and the shortest jobs.
  constexpr std::chrono::microseconds kShort{200};
  pipeline_.advance(now);
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
  drop_ended_looks();
  begin_ready(slot);
}

void UpstreamLink::drop_ended_looks() {
  const auto runs = [this](LeaseKey key) {
    const HeldLease* const lease = leases_.find(key);
    return lease != nullptr && lease->state == State::kRunning;
  };
  while (!new_leases_.empty() && !runs(new_leases_.front().first)) new_leases_.pop_front();
}

void UpstreamLink::yield_rest(HeldLease& lease) {
  if (std::exchange(lease.must_yield, false)) yield(lease, std::nullopt);
  forget_if_over(lease);
}

void UpstreamLink::yield(HeldLease& lease, std::optional<std::uint64_t> from) {
  proto::CommandWriter writer = pipeline_.begin({.kind = Kind::kYield, .lease = lease.key}, from ? 3 : 2);
  writer.argument("YIELD");
  writer.argument(lease.name);
  if (from) writer.argument(*from);
}

void UpstreamLink::on_yield(const AwaitedReply& awaited, ReplyCursor reply) {
  if (!reply.is_error()) {
    stats_.yielded_jobs += reply.count();
    if (reply.is_bad()) pipeline_.fail("the reply of YIELD is not one");
    return;
  }
  HeldLease* const lease = leases_.find(awaited.lease);
  if (lease != nullptr && reply.text().starts_with("LOST")) lose(*lease);
}

void UpstreamLink::cut(HeldLease& lease, std::uint64_t at) {
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

void UpstreamLink::stop(HeldLease& lease) {
  if (lease.state == State::kReady) return give_back(lease);
  if (lease.state == State::kRunning && !std::exchange(lease.is_stopping, true)) host_.stop(lease.key);
}

void UpstreamLink::give_back(HeldLease& lease) {
  // With LEAVE everything goes back.
  if (!lease.name.empty() && !pipeline_.has_sent_leave()) yield(lease, std::nullopt);
  leases_.forget(lease);
}

void UpstreamLink::lose(HeldLease& lease) {
  if (lease.is_lost) return;
  lease.is_lost = true;
  ++stats_.lost_leases;
  results_.drop_all_of(lease);
  leases_.clear_name(lease);
  if (lease.state == State::kRunning) return stop(lease);
  leases_.forget(lease);
}

void UpstreamLink::forget_if_over(HeldLease& lease) {
  if (lease.state == State::kEnded && lease.results.empty() && !lease.must_yield) leases_.forget(lease);
}

}  // namespace locksley::daemon

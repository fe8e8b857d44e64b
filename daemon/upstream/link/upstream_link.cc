#include "daemon/upstream/link/upstream_link.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"

namespace locksley::daemon {

UpstreamLink::UpstreamLink(UpstreamHost& host, UpstreamLinkOptions options, Nanoseconds now)
    : host_(host),
      options_(std::move(options)),
      attempts_(options_.addresses, options_.reach, options_.seed, now),
      pipeline_(options_.block, options_.reply_timeout, now),
      leases_(options_.slots),
      results_(pipeline_) {
  check(options_.slots != 0 && !options_.handlers.empty(), "a link without slots or handlers");
}

UpstreamLink::~UpstreamLink() = default;

// ---- The connection ----

void UpstreamLink::connected(Nanoseconds now) {
  pipeline_.advance(now);
  pipeline_.start();
  joined_.not_served.clear();
  phase_ = Phase::kGreeting;
  join_until_ = pipeline_.now() + options_.join_timeout;
  tells_grace_ = options_.grace.count() != 0;
  const client::Address& to = address();
  if (to.user.empty() && to.password.empty()) {
    pipeline_.send({.kind = Kind::kHello}, {"HELLO", "3"});
  } else {
    const std::string_view user = to.user.empty() ? std::string_view("default") : to.user;
    pipeline_.send({.kind = Kind::kHello}, {"HELLO", "3", "AUTH", user, to.password});
  }
}

void UpstreamLink::disconnected(std::string why, Nanoseconds now) {
  pipeline_.advance(now);
  if (phase_ == Phase::kDown) pipeline_.forget_trouble();
  pipeline_.fail(std::move(why));
  const bool has_joined = is_joined() || phase_ == Phase::kLeaving;
  phase_ = Phase::kDown;
  pipeline_.clear();
  to_reclaim_.clear();
  reclaims_out_ = 0;
  burst_ = 1;
  puts_off_claims_ = false;
  claim_at_ = Nanoseconds{0};
  upstream_drains_ = false;
  leases_.connection_lost();
  results_.connection_lost();
  // Leases that went back to the upstream with the connection, and have no result to hand in.
  std::vector<LeaseKey> over;
  for (const auto& [key, lease] : leases_.all()) {
    const bool has_ended = lease.state == HeldLease::State::kEnded && lease.results.empty();
    if (has_ended || (is_draining_ && lease.state == HeldLease::State::kReady)) over.push_back(key);
  }
  for (const LeaseKey key : over) leases_.forget(leases_.at(key));
  attempts_.ended({.trouble = trouble(), .has_joined = has_joined, .holds_leases = !leases_.empty()},
                  pipeline_.now());
}

void UpstreamLink::received(std::size_t bytes, Nanoseconds now) {
  pipeline_.advance(now);
  pipeline_.received(bytes);
  std::string_view reply;
  while (!is_broken() && phase_ != Phase::kDown && pipeline_.next(reply)) on_reply(ReplyCursor(reply), reply);
}

void UpstreamLink::on_reply(ReplyCursor reply, std::string_view bytes) {
  if (reply.is_push()) return on_orders(reply);
  const std::optional<AwaitedReply> of = pipeline_.answered();
  if (!of) return pipeline_.fail("it answers what was not asked");
  const AwaitedReply& awaited = *of;
  switch (awaited.kind) {
    case Kind::kHello:
      return on_hello(reply);
    case Kind::kJoin:
      return on_join(reply);
    case Kind::kClaim:
      return on_claim(awaited, reply, bytes);
    case Kind::kSettle:
      return on_settle(awaited, reply);
    case Kind::kYield:
      return on_yield(awaited, reply);
    case Kind::kReclaim:
      return on_reclaim(awaited, reply);
    case Kind::kBeat:
      if (reply.is_error()) return pipeline_.fail(std::string(reply.text()));
      for (std::uint64_t orders = reply.array(); orders != 0 && !reply.is_bad(); --orders)
        on_order(reply, reply.array());
      return;
    case Kind::kLeave:
      has_left_ = true;
      return;
    case Kind::kNote:
      return;  // at worst an error, for a job that the upstream has taken back
  }
}

UpstreamLinkStats UpstreamLink::stats() const {
  UpstreamLinkStats stats = stats_;
  stats.leases = leases_.in_slots();
  stats.kept_bytes = results_.bytes();
  return stats;
}

// ---- Orders ----

void UpstreamLink::on_orders(ReplyCursor reply) {
  const std::uint64_t values = reply.array();
  on_order(reply, values);
}

void UpstreamLink::on_order(ReplyCursor& order, std::uint64_t values) {
  if (values == 0) return;
  const std::string_view word = order.text();
  --values;
  if (word == "DRAIN") {
    upstream_drains_ = true;
  } else if ((word == "STOP" && values >= 1) || (word == "CUT" && values >= 2)) {
    HeldLease* const lease = leases_.find(order.text());
    --values;
    std::optional<std::uint64_t> at;
    if (word == "CUT") {
      at = order.count();
      --values;
    }
    if (order.is_bad()) return pipeline_.fail("an order is not one");
    if (lease != nullptr) at ? cut(*lease, *at) : stop(*lease);
  }
  for (; values != 0 && !order.is_bad(); --values) order.skip();
}

// ---- Time and the end ----

void UpstreamLink::flush(Nanoseconds now) {
  pipeline_.advance(now);
  leave_if_idle();
  if (puts_off_claims_ && pipeline_.output().empty()) return;
  claim();
}

void UpstreamLink::claim_put_off(Nanoseconds now) {
  pipeline_.advance(now);
  if (puts_off_claims_) claim();
}

void UpstreamLink::drain(Nanoseconds now) {
  pipeline_.advance(now);
  is_draining_ = true;
  const std::vector<LeaseKey> keys = leases_.keys();
  for (const LeaseKey key : keys) {
    HeldLease* lease = leases_.find(key);
    if (lease != nullptr) cut(*lease, lease->range.low);
    // Jobs that an executor has claimed, and does not start, would wait here, where perhaps nothing
    // runs them any more.
    lease = leases_.find(key);
    if (lease != nullptr && lease->state == HeldLease::State::kRunning) host_.finish(key);
  }
  leave_if_idle();
}

void UpstreamLink::stop(Nanoseconds now) {
  drain(now);
  const std::vector<LeaseKey> keys = leases_.keys();
  for (const LeaseKey key : keys) stop(leases_.at(key));
}

void UpstreamLink::leave(Nanoseconds now) {
  drain(now);
  while (!leases_.empty()) leases_.forget(leases_.at(leases_.all().begin()->first));
  leave_if_idle();
}

void UpstreamLink::leave_if_idle() {
  if (!is_draining_ || !leases_.empty() || phase_ != Phase::kServing) return;
  phase_ = Phase::kLeaving;
  join_until_ = pipeline_.now() + options_.join_timeout;
  pipeline_.leave();
}

std::optional<Nanoseconds> UpstreamLink::next_timer() const {
  switch (phase_) {
    case Phase::kDown:
      return is_done() ? std::nullopt : std::optional(attempts_.next_at());
    case Phase::kGreeting:
    case Phase::kJoining:
    case Phase::kLeaving:
      return join_until_;
    case Phase::kReclaiming:
    case Phase::kServing:
      break;
  }
  std::optional<Nanoseconds> next = pipeline_.silent_at();
  const auto add = [&next](Nanoseconds at) { next = next ? std::min(*next, at) : at; };
  if (leases_.has_names()) add(beat_at_);
  if (claim_at_ > pipeline_.now()) add(claim_at_);
  return next;
}

void UpstreamLink::advance(Nanoseconds now) {
  pipeline_.advance(now);
  switch (phase_) {
    case Phase::kDown:
      return;
    case Phase::kGreeting:
    case Phase::kJoining:
      if (pipeline_.now() >= join_until_) pipeline_.fail("it has not answered HELLO and JOIN in time");
      return;
    case Phase::kLeaving:
      if (pipeline_.now() >= join_until_) has_left_ = true;
      return;
    case Phase::kReclaiming:
    case Phase::kServing:
      break;
  }
  pipeline_.check_silence();
  if (is_broken()) return;
  if (pipeline_.now() >= beat_at_) {
    beat_at_ = pipeline_.now() + beat_interval();
    if (leases_.has_names()) beat();
  }
  flush(pipeline_.now());
}

Nanoseconds UpstreamLink::beat_interval() const {
  const bool has_timeouts =
      std::ranges::any_of(leases_.all(), [](const auto& each) { return each.second.has_timeout; });
  return has_timeouts ? std::min<Nanoseconds>(joined_.beat, kBeatsOfTimeouts) : joined_.beat;
}

void UpstreamLink::beat() {
  std::size_t held = 0;
  const auto is_told = [](const HeldLease& lease) {
    return !lease.name.empty() && lease.state != HeldLease::State::kEnded;
  };
  for (const auto& [key, lease] : leases_.all()) held += is_told(lease) ? 1U : 0U;
  if (held == 0) return;
  proto::CommandWriter writer = pipeline_.begin({.kind = Kind::kBeat}, 1 + 2 * held);
  writer.argument("BEAT");
  for (const auto& [key, lease] : leases_.all()) {
    if (!is_told(lease)) continue;
    const bool runs = lease.state == HeldLease::State::kRunning;
    writer.argument(lease.name);
    writer.argument(runs ? std::clamp(host_.next(key), lease.range.low, lease.range.high) : lease.range.low);
  }
}

}  // namespace locksley::daemon

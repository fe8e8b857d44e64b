#include "daemon/upstream/link/upstream_link.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"

namespace locksley::daemon {

UpstreamLink::UpstreamLink(UpstreamHost& host, UpstreamLinkOptions options, Nanoseconds now)
    : options_(std::move(options)),
      attempts_(options_.addresses, options_.reach, options_.seed, now),
      pipeline_(options_.block, options_.reply_timeout, now),
      leases_(options_.slots),
      results_(pipeline_),
      beats_(host, leases_, pipeline_),
      lifecycle_(host, leases_, results_, beats_, pipeline_),
      claims_(leases_, pipeline_, options_.block),
      reclaims_(leases_, results_, lifecycle_, pipeline_) {
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
  reclaims_.connection_lost();
  claims_.connection_lost();
  leases_.connection_lost();
  results_.connection_lost();
  lifecycle_.connection_lost(!is_draining_);
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
      return lifecycle_.on_settle(awaited, reply);
    case Kind::kYield:
      return lifecycle_.on_yield(awaited, reply);
    case Kind::kReclaim:
      if (reclaims_.on_reply(awaited, reply)) phase_ = Phase::kServing;
      return;
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
  stats.leased_jobs = claims_.leased_jobs();
  stats.reclaimed_leases = reclaims_.reclaimed_leases();
  stats.settled_jobs = lifecycle_.settled_jobs();
  stats.yielded_jobs = lifecycle_.yielded_jobs();
  stats.lost_leases = lifecycle_.lost_leases();
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
    claims_.upstream_drains();
  } else if ((word == "STOP" && values >= 1) || (word == "CUT" && values >= 2)) {
    HeldLease* const lease = leases_.find(order.text());
    --values;
    std::optional<std::uint64_t> at;
    if (word == "CUT") {
      at = order.count();
      --values;
    }
    if (order.is_bad()) return pipeline_.fail("an order is not one");
    if (lease != nullptr) at ? lifecycle_.cut(*lease, *at) : lifecycle_.stop(*lease);
  }
  for (; values != 0 && !order.is_bad(); --values) order.skip();
}

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

void UpstreamLink::ended(LeaseKey key, Nanoseconds now) {
  pipeline_.advance(now);
  lifecycle_.ended(key);
}

// ---- Time and the end ----

void UpstreamLink::flush(Nanoseconds now) {
  pipeline_.advance(now);
  leave_if_idle();
  if (puts_off_claims() && pipeline_.output().empty()) return;
  claim();
}

void UpstreamLink::claim() {
  claims_.claim(phase_ == Phase::kServing && !is_draining_ && results_.bytes() <= options_.max_kept_bytes);
}

void UpstreamLink::on_claim(const AwaitedReply& awaited, ReplyCursor reply, std::string_view bytes) {
  HeldLease* const lease = claims_.on_reply(awaited, reply, bytes);
  if (lease == nullptr) return;
  if (is_draining_) return lifecycle_.give_back(*lease);
  beats_.came(*lease);
  lifecycle_.begin_ready(awaited.slot);
}

void UpstreamLink::claim_put_off(Nanoseconds now) {
  pipeline_.advance(now);
  if (puts_off_claims()) claim();
}

void UpstreamLink::drain(Nanoseconds now) {
  pipeline_.advance(now);
  is_draining_ = true;
  lifecycle_.drain();
  leave_if_idle();
}

void UpstreamLink::stop(Nanoseconds now) {
  drain(now);
  lifecycle_.stop_all();
}

void UpstreamLink::leave(Nanoseconds now) {
  drain(now);
  lifecycle_.forget_all();
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
  if (const auto beat = beats_.next_beat()) add(*beat);
  if (const auto claim = claims_.next_claim()) add(*claim);
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
  beats_.advance();
  flush(pipeline_.now());
}

void UpstreamLink::report_waiting(Nanoseconds now) {
  pipeline_.advance(now);
  if (beats_.check_leases() && phase_ == Phase::kServing) beats_.beat_now();
}

}  // namespace locksley::daemon

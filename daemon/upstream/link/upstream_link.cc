#include "daemon/upstream/link/upstream_link.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"

namespace locksley::daemon {
namespace {

constexpr std::chrono::milliseconds kFirstPause{100};
constexpr std::chrono::milliseconds kLongestPause{5'000};
// While it holds leases: an upstream that has read its batches waits for workers.reclaim, 3 s
// unless it is configured, before it gives the jobs to others. With that, and UpstreamConnection's
// time for an address that does not answer, two addresses are tried in less.
constexpr std::chrono::milliseconds kLongestPauseWithLeases{1'000};
// Later than this, a look for silence says more of this process than of the upstream. A guess.
constexpr std::chrono::milliseconds kLate{1'000};

}  // namespace

UpstreamLink::UpstreamLink(UpstreamHost& host, UpstreamLinkOptions options, Nanoseconds now)
    : host_(host),
      options_(std::move(options)),
      now_(now),
      backoff_(options_.seed, kFirstPause, kLongestPause),
      route_(options_.addresses, options_.reach),
      connect_at_(now),
      slots_(options_.slots) {
  check(options_.slots != 0 && !options_.handlers.empty(), "a link without slots or handlers");
}

UpstreamLink::~UpstreamLink() = default;

// ---- The connection ----

void UpstreamLink::connected(Nanoseconds now) {
  now_ = std::max(now_, now);
  trouble_.clear();
  not_served_.clear();
  phase_ = Phase::kGreeting;
  join_until_ = now_ + options_.join_timeout;
  silent_since_ = now_;
  was_late_ = false;
  tells_grace_ = options_.grace.count() != 0;
  const client::Address& to = address();
  if (to.user.empty() && to.password.empty()) {
    send_command({.kind = Kind::kHello}, {"HELLO", "3"});
  } else {
    const std::string_view user = to.user.empty() ? std::string_view("default") : to.user;
    send_command({.kind = Kind::kHello}, {"HELLO", "3", "AUTH", user, to.password});
  }
}

void UpstreamLink::disconnected(std::string why, Nanoseconds now) {
  now_ = std::max(now_, now);
  if (trouble_.empty() || phase_ == Phase::kDown) trouble_ = std::move(why);
  if (!std::exchange(is_without_handlers_, false)) without_handlers_since_.reset();
  const bool waits = choose_next_address();
  phase_ = Phase::kDown;
  scanner_.clear();
  output_.clear();
  awaited_.clear();
  by_name_.clear();
  to_reclaim_.clear();
  reclaims_out_ = 0;
  burst_ = 1;
  puts_off_claims_ = false;
  claim_at_ = Nanoseconds{0};
  upstream_drains_ = false;
  for (UpstreamSlot& slot : slots_) slot.claims = slot.reclaims = 0;
  for (auto& [key, results] : kept_) results.is_sent = false;
  // Leases that went back to the upstream with the connection, and have no result to hand in.
  std::vector<LeaseKey> over;
  for (auto& [key, lease] : leases_) {
    if (!lease.name.empty()) lease.former = std::exchange(lease.name, {});
    lease.held.clear();
    const bool has_ended = lease.state == HeldLease::State::kEnded && lease.results.empty();
    if (has_ended || (is_draining_ && lease.state == HeldLease::State::kReady)) over.push_back(key);
  }
  for (const LeaseKey key : over) forget(leases_.at(key));
  connect_at_ = waits ? now_ + pause() : now_;
}

bool UpstreamLink::choose_next_address() {
  using Next = client::Route::Next;
  // Else an upstream that closes what it has let join would be asked again without a pause.
  const bool has_joined = is_joined() || phase_ == Phase::kLeaving;
  Next next = Next::kAfterPause;
  if (trouble_.starts_with("READONLY ")) {
    next = route_.standing_by(trouble_);
  } else if (trouble_.starts_with("LOADING ")) {
    next = route_.loading();
  } else {
    next = route_.unreachable();
  }
  return has_joined || next == Next::kAfterPause;
}

Nanoseconds UpstreamLink::pause() {
  const std::chrono::milliseconds pause = backoff_.next();
  return leases_.empty() ? pause : std::min(pause, kLongestPauseWithLeases);
}

void UpstreamLink::received(std::size_t bytes, Nanoseconds now) {
  now_ = std::max(now_, now);
  silent_since_ = now_;
  was_late_ = false;
  scanner_.commit(bytes);
  std::string_view reply;
  while (!is_broken() && phase_ != Phase::kDown) {
    switch (scanner_.next(reply)) {
      case ReplyScanner::Status::kNeedMore:
        return;
      case ReplyScanner::Status::kInvalid:
        return fail("what it sends is not RESP3");
      case ReplyScanner::Status::kWhole:
        on_reply(ReplyCursor(reply), reply);
    }
  }
}

void UpstreamLink::sent(std::size_t bytes, Nanoseconds now) {
  output_.consume(bytes);
  // The reply to a large SETTLE cannot come before all of it has arrived. A peer that hangs takes
  // bytes only until its socket is full.
  if (output_.empty()) return;
  now_ = std::max(now_, now);
  silent_since_ = now_;
}

proto::CommandWriter UpstreamLink::begin_command(AwaitedReply awaited, std::size_t words) {
  awaited.sent = now_;
  awaited_.push_back(awaited);
  proto::CommandWriter writer(output_);
  writer.begin(words);
  return writer;
}

void UpstreamLink::send_command(AwaitedReply awaited, std::initializer_list<std::string_view> words) {
  proto::CommandWriter writer = begin_command(awaited, words.size());
  for (const std::string_view word : words) writer.argument(word);
}

void UpstreamLink::on_reply(ReplyCursor reply, std::string_view bytes) {
  if (reply.is_push()) return on_orders(reply);
  if (awaited_.empty()) return fail("it answers what was not asked");
  const AwaitedReply awaited = awaited_.front();
  awaited_.pop_front();
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
      if (reply.is_error()) return fail(std::string(reply.text()));
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
    HeldLease* const lease = find(order.text());
    --values;
    std::optional<std::uint64_t> at;
    if (word == "CUT") {
      at = order.count();
      --values;
    }
    if (order.is_bad()) return fail("an order is not one");
    if (lease != nullptr) at ? cut(*lease, *at) : stop(*lease);
  }
  for (; values != 0 && !order.is_bad(); --values) order.skip();
}

// ---- Time and the end ----

void UpstreamLink::flush(Nanoseconds now) {
  now_ = std::max(now_, now);
  leave_if_idle();
  if (puts_off_claims_ && output_.empty()) return;
  claim();
}

void UpstreamLink::claim_put_off(Nanoseconds now) {
  now_ = std::max(now_, now);
  if (puts_off_claims_) claim();
}

void UpstreamLink::drain(Nanoseconds now) {
  now_ = std::max(now_, now);
  is_draining_ = true;
  std::vector<LeaseKey> keys;
  for (const auto& [key, lease] : leases_) keys.push_back(key);
  for (const LeaseKey key : keys) {
    HeldLease* lease = find(key);
    if (lease != nullptr) cut(*lease, lease->range.low);
    // Jobs that an executor has claimed, and does not start, would wait here, where perhaps nothing
    // runs them any more.
    lease = find(key);
    if (lease != nullptr && lease->state == HeldLease::State::kRunning) host_.finish(key);
  }
  leave_if_idle();
}

void UpstreamLink::stop(Nanoseconds now) {
  drain(now);
  std::vector<LeaseKey> keys;
  for (const auto& [key, lease] : leases_) keys.push_back(key);
  for (const LeaseKey key : keys) stop(leases_.at(key));
}

void UpstreamLink::leave(Nanoseconds now) {
  drain(now);
  while (!leases_.empty()) forget(leases_.begin()->second);
  leave_if_idle();
}

void UpstreamLink::leave_if_idle() {
  if (!is_draining_ || !leases_.empty() || phase_ != Phase::kServing) return;
  phase_ = Phase::kLeaving;
  join_until_ = now_ + options_.join_timeout;
  send_command({.kind = Kind::kLeave}, {"LEAVE"});
}

std::optional<Nanoseconds> UpstreamLink::next_timer() const {
  switch (phase_) {
    case Phase::kDown:
      return is_done() ? std::nullopt : std::optional(connect_at_);
    case Phase::kGreeting:
    case Phase::kJoining:
    case Phase::kLeaving:
      return join_until_;
    case Phase::kReclaiming:
    case Phase::kServing:
      break;
  }
  std::optional<Nanoseconds> next = silent_at();
  const auto add = [&next](Nanoseconds at) { next = next ? std::min(*next, at) : at; };
  if (!by_name_.empty()) add(beat_at_);
  if (claim_at_ > now_) add(claim_at_);
  return next;
}

std::optional<Nanoseconds> UpstreamLink::silent_at() const {
  if (awaited_.empty()) return std::nullopt;
  const AwaitedReply& first = awaited_.front();
  Nanoseconds due = first.sent;
  if (first.blocks) {
    // The wait of a CLAIM ends with the next command.
    due += options_.block;
    if (awaited_.size() > 1) due = std::min(due, awaited_[1].sent);
  }
  return std::max(due, silent_since_) + options_.reply_timeout;
}

// TCP does not notice a peer that is stopped, or hangs: its kernel acknowledges everything.
void UpstreamLink::check_silence() {
  const std::optional<Nanoseconds> at = silent_at();
  if (!at || now_ < *at) return;
  // If this process was paused, replies may lie unread: it gets the time once more.
  if (now_ - *at > kLate && !std::exchange(was_late_, true)) {
    silent_since_ = now_;
    return;
  }
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(options_.reply_timeout);
  fail("it has sent nothing for " + std::to_string(seconds.count()) +
       " s although a reply is due: it may hang");
}

void UpstreamLink::advance(Nanoseconds now) {
  now_ = std::max(now_, now);
  switch (phase_) {
    case Phase::kDown:
      return;
    case Phase::kGreeting:
    case Phase::kJoining:
      if (now_ >= join_until_) fail("it has not answered HELLO and JOIN in time");
      return;
    case Phase::kLeaving:
      if (now_ >= join_until_) has_left_ = true;
      return;
    case Phase::kReclaiming:
    case Phase::kServing:
      break;
  }
  check_silence();
  if (is_broken()) return;
  if (now_ >= beat_at_) {
    beat_at_ = now_ + beat_interval();
    if (!by_name_.empty()) beat();
  }
  flush(now_);
}

Nanoseconds UpstreamLink::beat_interval() const {
  const bool has_timeouts =
      std::ranges::any_of(leases_, [](const auto& each) { return each.second.has_timeout; });
  return has_timeouts ? std::min<Nanoseconds>(beat_every_, kBeatsOfTimeouts) : beat_every_;
}

void UpstreamLink::beat() {
  std::size_t held = 0;
  const auto is_told = [](const HeldLease& lease) {
    return !lease.name.empty() && lease.state != HeldLease::State::kEnded;
  };
  for (const auto& [key, lease] : leases_) held += is_told(lease) ? 1U : 0U;
  if (held == 0) return;
  proto::CommandWriter writer = begin_command({.kind = Kind::kBeat}, 1 + 2 * held);
  writer.argument("BEAT");
  for (const auto& [key, lease] : leases_) {
    if (!is_told(lease)) continue;
    const bool runs = lease.state == HeldLease::State::kRunning;
    writer.argument(lease.name);
    writer.argument(runs ? std::clamp(host_.next(key), lease.range.low, lease.range.high) : lease.range.low);
  }
}

}  // namespace locksley::daemon

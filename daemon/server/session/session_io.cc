// A session and its socket: reading, writing, waiting, and closing.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <utility>

#include "daemon/base/time.h"
#include "daemon/server/session/session.h"
#include "daemon/server/session/sessions.h"

namespace locksley::daemon {

void Session::receive() {
  std::span<std::byte> space = reader_.prepare();
  space = space.first(std::min(space.size(), kMostRead));
  const Transport::Received received = transport_.receive(space);
  if (received.bytes == 0) return;
  if (received.is_first && !transport_.is_tls() && space.front() == Transport::kTlsFirstByte) {
    return refuse_tls();
  }
  reader_.commit(received.bytes);
  state_.stats().received_bytes.add(received.bytes);
  if (state_.config().limits.idle_timeout.count() != 0) active_at_ = now();
  update_input_memory();
}

void Session::update_input_memory() {
  if (memory_.set_input(reader_.memory_bytes())) return;
  constexpr std::string_view kTooMuch =
      "unfinished commands of all clients together pass limits.max_queued_bytes";
  state_.warnings().warn(Warning::kInputMemory, peer_, kTooMuch);
  fail(fmt::format("TOOBIG {}", kTooMuch));
  life_.go_to(Life::kLastReply);
}

void Session::release_input() {
  if (reader_.is_idle()) reader_.release();
  // It only shrinks here, so that it is not refused.
  if (const std::uint64_t memory = reader_.memory_bytes(); memory != memory_.input()) {
    memory_.set_input(memory);
  }
}

bool Session::flush() {
  proto::OutputBuffer& output = output_.sendable();
  std::size_t most = Transport::kMostAtOnce;
  const bool sends_much = output.size() >= Slices::kMuchToSend;
  while (!output.empty()) {
    std::array<std::string_view, 32> views;
    const std::size_t used = output.gather(views);
    std::size_t total = 0;
    std::size_t count = 0;
    for (; count < used && total < most; ++count) {
      views[count] = views[count].substr(0, most - total);
      total += views[count].size();
    }
    const std::optional<std::size_t> sent = transport_.send(std::span(views).first(count));
    if (!sent) return false;
    output.consume(*sent);
    state_.stats().sent_bytes.add(*sent);
    if (sends_much) state_.slices().charge_sending(*sent);
    if (*sent < total || *sent >= most) return true;
    most -= *sent;
  }
  return true;
}

bool Session::flush_or_drop() {
  if (!is_dropped() && !flush()) life_.go_to(Life::kDropped);
  return !is_dropped();
}

bool Session::is_over_output_limit() {
  const std::uint64_t most = state_.config().limits.output_buffer.count;
  // A reply with one output as large as the limit is sent.
  constexpr std::uint64_t kAroundOutput = 128;  // rounded up
  if (output_.size() + subscriptions_.waiting_bytes() <= most + kAroundOutput) return false;
  state_.stats().slow_clients_dropped.add(1);
  state_.warnings().warn(Warning::kSlowClient, peer_,
                         subscriptions_.empty() ? "a client does not read its replies: limits.output_buffer"
                                                : "a subscriber reads too slowly: limits.output_buffer");
  return true;
}

bool Session::serve_socket() {
  if (is_dropped()) return false;
  // Until nothing is left: the socket does not report what a TLS channel has taken in already.
  while (transport_.can_receive() && !is_dropped() && reader_.buffered_bytes() < kBlockedInput) receive();
  match_events();
  if (transport_.is_at_end()) {
    // The commands that are pipelined after this one are not executed either: a peer that half-closes while
    // it is blocked has given up. What was executed before has its replies.
    life_.go_to(Life::kLastReply);
    return false;
  }
  if (!flush_or_drop()) return false;
  if (is_over_output_limit()) {
    life_.go_to(Life::kDropped);
    return false;
  }
  update_memory();
  release_input();
  if (reader_.buffered_bytes() < kBlockedInput) transport_.wait_readable(*this);
  if (!output_.sendable().empty()) transport_.wait_writable(*this);
  return true;
}

void Session::limits_changed() {
  active_at_ = now();
  proto::Limits limits = state_.reader_limits();
  limits.authenticated = reader_.limits().authenticated;
  reader_.set_limits(limits);
  wakeup_.wake();
}

bool Session::rest() {
  release_input();
  if (output_.sendable().empty()) output_.sendable().clear();
  update_memory();
  if (life_.now() == Life::kStranger) {
    if (now() >= login_deadline()) return false;
    wake_at(login_deadline());
  }
  const auto limit = state_.config().limits.idle_timeout;
  if (limit.count() == 0 || !subscriptions_.empty()) return true;
  const Instant at = active_at_ + limit;
  if (now() >= at) return false;
  wake_at(at);
  return true;
}

void Session::wake_at(Instant at) {
  // A timer that goes off too early does no harm: its waiter looks at the clock again. So it is moved only to
  // an earlier instant.
  if (timer_at_ <= at) return;
  timer_at_ = at;
  timer_.expires_at(at);
  timer_.async_wait([self = shared_from_this()](const asio::error_code& error) {
    if (error) return;
    self->timer_at_ = kNever;
    self->wakeup_.wake_here();
  });
}

Coroutine<void> Session::say_goodbye() {
  while (!is_dropped() && output_.is_held()) {
    if (!wakeup_.take()) co_await wakeup_.wait();
  }
  // Closing a socket with unread input resets the connection, and the peer may lose the last reply: so this
  // first says that nothing more comes, and reads until the peer has seen it.
  const Instant deadline = now() + kFarewell;
  bool is_shut = false;
  while (!is_dropped() && now() < deadline) {
    if (!flush()) co_return;
    const bool is_sent = output_.sendable().empty() && transport_.is_sent();
    if (is_sent && !std::exchange(is_shut, true)) transport_.shut();
    const Transport::Left left = transport_.discard();
    if (left == Transport::Left::kEnd && is_sent) co_return;
    if (left != Transport::Left::kEnd) transport_.wait_readable(*this);
    if (!output_.sendable().empty()) transport_.wait_writable(*this);
    wake_at(deadline);
    if (!wakeup_.take()) co_await wakeup_.wait();
  }
}

}  // namespace locksley::daemon

// A connection and its socket: reading, writing, waiting, and taking leave.
#include <array>
#include <utility>

#include "daemon/server/server.h"
#include "daemon/server/session.h"

namespace locksley::daemon {

void Session::receive() {
  const std::span<std::byte> space = reader_.prepare();
  const Transport::Received received = transport_.receive(space);
  readable_ = received.left == Transport::Left::kMore;
  if (received.left == Transport::Left::kEnd) eof_ = true;
  if (received.bytes == 0) return;
  if (!std::exchange(begun_, true) && !transport_.is_tls() && space.front() == Transport::kTlsFirstByte) {
    return refuse_tls();
  }
  reader_.commit(received.bytes);
  server_.stats().received_bytes.add(received.bytes);
  if (server_.config().limits.idle_timeout.count() != 0) active_at_ = now();
  account_input();
}

void Session::account_input() {
  const std::uint64_t memory = reader_.memory_bytes();
  if (!server_.account_input(memory, std::exchange(input_memory_, memory))) {
    server_.warn_sometimes(Warning::kInputMemory, peer_,
                           "unfinished commands of all clients together pass limits.max_queued_bytes");
    fail("TOOBIG unfinished commands of all clients together pass limits.max_queued_bytes");
    closing_ = true;
  }
}

bool Session::flush() {
  std::size_t most = Transport::kMostAtOnce;
  while (!output_.empty()) {
    std::array<std::string_view, 32> views;
    const std::size_t used = output_.gather(views);
    std::size_t total = 0;
    std::size_t count = 0;
    for (; count < used && total < most; ++count) {
      views[count] = views[count].substr(0, most - total);
      total += views[count].size();
    }
    const std::optional<std::size_t> sent = transport_.send(std::span(views).first(count));
    if (!sent) return false;
    output_.consume(*sent);
    server_.stats().sent_bytes.add(*sent);
    if (*sent < total || *sent >= most) return true;
    most -= *sent;
  }
  return true;
}

bool Session::is_over_limit() {
  const std::uint64_t most = server_.config().limits.output_buffer.count;
  if (output_size() + offered_bytes_ <= most) return false;
  server_.stats().slow_clients_dropped.add(1);
  server_.warn_sometimes(Warning::kSlowClient, peer_,
                         is_subscribed() ? "a subscriber reads too slowly: limits.output_buffer"
                                         : "a client does not read its replies: limits.output_buffer");
  return true;
}

bool Session::tend() {
  if (dropped_) return false;
  // To the end of what there is: what a TLS channel has taken in, the socket does not tell of again.
  while (readable_ && !eof_ && !dropped_ && reader_.buffered_bytes() < kBlockedInput) receive();
  match_offered();
  if (eof_) {
    // Whatever is pipelined behind is not executed either: a peer that half-closes while it is blocked has
    // given up. What was executed before it has its replies.
    closing_ = true;
    return false;
  }
  if (dropped_ || !flush() || is_over_limit()) {
    dropped_ = true;
    return false;
  }
  account();
  if (reader_.buffered_bytes() < kBlockedInput) wait_readable();
  if (!output_.empty()) wait_writable();
  return true;
}

void Session::look_again() {
  active_at_ = now();
  proto::Limits limits = server_.reader_limits();
  limits.authenticated = reader_.limits().authenticated;
  reader_.set_limits(limits);
  wakeup_.wake();
}

bool Session::rest() {
  if (reader_.is_idle()) reader_.release();
  if (output_.empty()) output_.clear();
  account();
  if (const std::uint64_t memory = reader_.memory_bytes(); memory != input_memory_) {
    server_.account_input(memory, std::exchange(input_memory_, memory));
  }
  if (!is_logged_in()) {
    if (now() >= login_deadline()) return false;
    wait_until(login_deadline());
  }
  const auto limit = server_.config().limits.idle_timeout;
  if (limit.count() == 0 || is_subscribed()) return true;
  const Instant at = active_at_ + limit;
  if (now() >= at) return false;
  wait_until(at);
  return true;
}

void Session::wait_readable() {
  if (std::exchange(read_armed_, true)) return;
  transport_.socket().async_wait(transport_.read_wait(),
                                 [self = shared_from_this()](const asio::error_code& error) {
                                   self->read_armed_ = false;
                                   if (error) return;
                                   self->readable_ = true;
                                   self->wakeup_.wake_here();
                                 });
}

void Session::wait_writable() {
  if (std::exchange(write_armed_, true)) return;
  transport_.socket().async_wait(transport_.write_wait(),
                                 [self = shared_from_this()](const asio::error_code& error) {
                                   self->write_armed_ = false;
                                   if (!error) self->wakeup_.wake_here();
                                 });
}

void Session::wait_until(Instant at) {
  // A timer that goes off too early does no harm: whoever waits looks at the clock again. So it is moved only
  // forward.
  if (timer_at_ <= at) return;
  timer_at_ = at;
  timer_.expires_at(at);
  timer_.async_wait([self = shared_from_this()](const asio::error_code& error) {
    if (error) return;
    self->timer_at_ = kNever;
    self->wakeup_.wake_here();
  });
}

Coroutine<void> Session::farewell() {
  // Closing a socket with unread input resets the connection, and the peer may lose the last reply: so first
  // say that nothing more comes, and read until the peer has seen it.
  while (!dropped_ && !held_.empty()) {
    if (!wakeup_.take()) co_await wakeup_.wait();
  }
  const Instant deadline = now() + kFarewell;
  bool is_shut = false;
  while (!dropped_ && now() < deadline) {
    if (!flush()) co_return;
    if (output_.empty() && !std::exchange(is_shut, true)) transport_.shut();
    const Transport::Left left = transport_.discard();
    if (left == Transport::Left::kEnd && output_.empty()) co_return;
    if (left != Transport::Left::kEnd) wait_readable();
    if (!output_.empty()) wait_writable();
    wait_until(deadline);
    if (!wakeup_.take()) co_await wakeup_.wait();
  }
}

}  // namespace locksley::daemon

// What a connection of either port is made of.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "daemon/base/loop/io.h"
#include "daemon/base/loop/turns.h"
#include "daemon/base/loop/wakeup.h"
#include "daemon/base/time.h"
#include "daemon/connection/life.h"
#include "daemon/network/transport.h"
#include "daemon/tls/context.h"
#include "daemon/tls/handshake_queue.h"

namespace locksley::daemon {

// What connections of the client port and of the port for workers have in common: the socket, the
// flag on which the coroutine sleeps, one timer, the states, the TLS handshake and the farewell.
//
// A member of its owner, a Session or a WorkerSession, which is shared by its coroutine and by
// pending waits, and has socket_is_ready(). Functions that wait take the owner, so that the wait
// shares it. One thread: that of the executor. Nothing blocks. A peer that fails ends this
// connection alone; the owner is told how, and replies and counts.
class Connection {
 public:
  // How long a peer has to read the last reply and to close.
  static constexpr auto kFarewell = std::chrono::seconds(1);

  // `peer`: its address, as text. `turns` outlives it.
  Connection(Transport transport, std::string peer, Turns& turns, const IoExecutor& executor);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  const std::string& peer() const { return peer_; }
  Instant connected_at() const { return connected_at_; }
  Transport& transport() { return transport_; }
  const Transport& transport() const { return transport_; }
  Wakeup& wakeup() { return wakeup_; }
  ConnectionLife& life() { return life_; }
  const ConnectionLife& life() const { return life_; }

  // Wakes the owner's coroutine at `at`, or earlier: the coroutine reads the clock again.
  template <class Owner>
  void wake_at(Owner& owner, Instant at);

  // ---- The TLS handshake ----

  enum class Handshake : std::uint8_t {
    kDone,
    kFailed,  // Transport::tls_error() says how
    kPlain,   // the peer does not speak TLS
    kLate,    // it was not done by the deadline
    kGone,    // the peer has closed before its first step
    kClosed,  // the connection is closing, by an order of this daemon
  };
  // Needs: Life::kHandshake. `queue`: all handshakes of the thread.
  template <class Owner>
  Coroutine<Handshake> shake_hands(Owner& owner, HandshakeQueue& queue, Instant deadline);
  // The authorities of client certificates have changed; `context` is null: TLS is off. Why the
  // connection must be dropped; empty: it may stay. It must be if it needs a certificate
  // (`is_logged_in_by_certificate`, or each peer needs one) and has none of a current authority,
  // and if its handshake is not over. Takes some 0.1 ms if it has a certificate.
  std::string_view objection_of_authorities(const TlsContext* context,
                                            bool is_logged_in_by_certificate) const;

  // ---- The end ----

  // Sends the last bytes, says that nothing more comes, and waits for the peer to close: kFarewell
  // at most, or until the connection is dropped. `flush` sends as much as the socket takes, and
  // returns whether all is sent; none: the peer has gone.
  template <class Owner, class Flush>
  Coroutine<void> say_goodbye(Owner& owner, Flush flush);
  // The socket and the timer; the states are at their end.
  void close();

 private:
  void forget_timer();

  const std::string peer_;
  const Instant connected_at_;
  Transport transport_;
  ConnectionLife life_;
  Wakeup wakeup_;
  Timer timer_;
  Instant timer_at_ = kNever;
};

template <class Owner>
void Connection::wake_at(Owner& owner, Instant at) {
  // A timer that goes off too early does no harm: its waiter reads the clock again. So it is moved
  // only to an earlier instant.
  if (timer_at_ <= at) return;
  timer_at_ = at;
  timer_.expires_at(at);
  timer_.async_wait([this, self = owner.shared_from_this()](const asio::error_code& error) {
    if (error) return;
    timer_at_ = kNever;
    wakeup_.wake_here();
  });
}

template <class Owner>
Coroutine<Connection::Handshake> Connection::shake_hands(Owner& owner, HandshakeQueue& queue,
                                                         Instant deadline) {
  using Then = TlsChannel::Then;
  std::optional<bool> is_tls;
  Then then = Then::kWantRead;
  bool is_first = true;
  while (then == Then::kWantRead || then == Then::kWantWrite) {
    then == Then::kWantRead ? transport_.wait_readable(owner) : transport_.wait_writable(owner);
    wake_at(owner, deadline);
    if (!wakeup_.take()) co_await wakeup_.wait();
    if (life_.is_dropped()) co_return Handshake::kClosed;
    if (!is_tls) is_tls = transport_.looks_like_tls();
    if (is_tls == false) co_return Handshake::kPlain;
    if (is_tls && life_.now() == Life::kHandshake) {
      co_await queue.wait_for_step(transport_.address(), kAwait);
    }
    if (life_.now() != Life::kHandshake) co_return Handshake::kClosed;
    // Asked only before the first step of the handshake: later a peer that has closed may have said
    // all that it had to say.
    if (std::exchange(is_first, !is_tls) && transport_.is_gone()) co_return Handshake::kGone;
    if (now() >= deadline) co_return Handshake::kLate;
    if (is_tls) then = transport_.handshake();
  }
  if (then != Then::kDone) co_return Handshake::kFailed;
  forget_timer();
  transport_.expect_more();
  co_return Handshake::kDone;
}

template <class Owner, class Flush>
Coroutine<void> Connection::say_goodbye(Owner& owner, Flush flush) {
  // Closing a socket with unread input resets the connection, and the peer may lose the last reply:
  // so this first says that nothing more comes, and reads until the peer has seen it.
  const Instant deadline = now() + kFarewell;
  bool is_shut = false;
  while (!life_.is_dropped() && now() < deadline) {
    const std::optional<bool> is_flushed = flush();
    if (!is_flushed) co_return;
    const bool is_sent = *is_flushed && transport_.is_sent();
    if (is_sent && !std::exchange(is_shut, true)) transport_.shut();
    const Transport::Left left = transport_.discard();
    if (left == Transport::Left::kEnd && is_sent) co_return;
    if (left != Transport::Left::kEnd) transport_.wait_readable(owner);
    if (!*is_flushed) transport_.wait_writable(owner);
    wake_at(owner, deadline);
    if (!wakeup_.take()) co_await wakeup_.wait();
  }
}

}  // namespace locksley::daemon

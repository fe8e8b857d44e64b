#include "daemon/server/session/command_waits.h"

#include "daemon/server/session/session.h"

namespace locksley::daemon {

Coroutine<bool> CommandWaits::let_others(Slices::Spending& time, std::size_t held) {
  session_.memory().update(held);
  co_await wait_for_slice();
  time.go_on();
  co_return !is_dropped();
}

void CommandWaits::wake_at(Instant at) { connection_.wake_at(session_, at); }

void CommandWaits::wait_to_send() {
  if (session_.replies().output().sendable().empty()) return;
  session_.replies().is_withheld() ? wake_at(now() + kLookAtRole)
                                   : connection_.transport().wait_writable(session_);
}

bool CommandWaits::flush_or_drop() {
  if (!is_dropped() && !session_.replies().flush()) connection_.life().go_to(Life::kDropped);
  return !is_dropped();
}

bool CommandWaits::serve_socket() {
  if (is_dropped()) return false;
  Transport& transport = connection_.transport();
  ConnectionLife& life = connection_.life();
  SessionInput& input = session_.input();
  // Receive until nothing is left: the socket does not report bytes that a TLS channel holds
  // already.
  while (transport.can_receive() && !life.is_closing() && !input.is_full()) input.receive();
  if (life.is_closing()) return false;  // its input was refused
  session_.messages().match_events();
  const bool is_full = input.is_full();
  if (transport.is_at_end() || (is_full && transport.is_gone())) {
    // The commands that are pipelined after this one are not executed either: a peer that
    // half-closes while it is blocked has given up. Commands executed before get their replies.
    life.go_to(Life::kLastReply);
    return false;
  }
  if (!flush_or_drop()) return false;
  if (session_.replies().is_over_limit()) {
    life.go_to(Life::kDropped);
    return false;
  }
  session_.memory().update();
  input.release();
  // While unread input is left, the socket stays readable, so no event reports that the peer has
  // gone.
  is_full ? wake_at(now() + kLookAtPeer) : transport.wait_readable(session_);
  wait_to_send();
  return true;
}

}  // namespace locksley::daemon

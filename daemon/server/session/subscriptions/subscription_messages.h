// The messages of the subscriptions of one connection.
#pragma once

#include <string_view>

#include "daemon/base/loop/io_thread.h"
#include "daemon/base/loop/slices.h"
#include "daemon/server/session/subscriptions/subscriptions.h"
#include "daemon/server/state/server_state.h"

namespace locksley::daemon {

class Session;

// The subscriptions of one connection and their messages: writes messages into the connection's
// output, in its protocol, and matches events with its patterns a slice at a time. Drops the
// connection if it will miss events.
//
// A member of its Session, whose other parts it uses: replies, memory. The I/O thread only. Nothing
// blocks or fails.
class SubscriptionMessages final : private Subscriptions::Sink {
 public:
  static constexpr auto kMatchTime = Slices::kSlice;

  SubscriptionMessages(Session& session, ServerState& state);
  SubscriptionMessages(const SubscriptionMessages&) = delete;
  SubscriptionMessages& operator=(const SubscriptionMessages&) = delete;

  Subscriptions& subscriptions() { return subscriptions_; }
  const Subscriptions& subscriptions() const { return subscriptions_; }
  // Matches events with the patterns for kMatchTime at most. If some are left, the connection has
  // another turn.
  void match_events() LOCKSLEY_REQUIRES(kIoThread);

 private:
  bool takes_messages() const override;
  void write_message(std::string_view pattern, std::string_view channel, std::string_view message) override;
  void event_waits() override;
  void events_are_missed() override;

  Session& session_;
  Subscriptions subscriptions_;
};

}  // namespace locksley::daemon

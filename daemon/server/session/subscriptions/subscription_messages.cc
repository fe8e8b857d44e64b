#include "daemon/server/session/subscriptions/subscription_messages.h"

#include "daemon/base/time.h"
#include "daemon/server/session/session.h"

namespace locksley::daemon {

SubscriptionMessages::SubscriptionMessages(Session& session, ServerState& state)
    : session_(session), subscriptions_(state.batches().events(), state.stats().subscribers, *this) {}

void SubscriptionMessages::match_events() {
  if (!subscriptions_.has_waiting_events()) return;
  if (!subscriptions_.match_until(now() + kMatchTime)) {
    const auto go_on = [self = session_.shared_from_this()](Instant) {
      self->wake();
      return true;
    };
    session_.state().slices().add(go_on, session_.line());
  }
}

bool SubscriptionMessages::takes_messages() const { return !session_.is_dropped(); }

void SubscriptionMessages::write_message(std::string_view pattern, std::string_view channel,
                                         std::string_view message) {
  kIoThread.assert_held();
  session_.replies().tell_of_batches();
  proto::ReplyWriter writer(session_.replies().output().messages(), session_.info().protocol);
  writer.push(pattern.empty() ? 3 : 4);
  writer.bulk(pattern.empty() ? "message" : "pmessage");
  if (!pattern.empty()) writer.bulk(pattern);
  writer.bulk(channel);
  writer.bulk(message);
  session_.memory().update();
  session_.wake();
}

void SubscriptionMessages::event_waits() {
  kIoThread.assert_held();
  session_.memory().update();
  session_.wake();
}

void SubscriptionMessages::events_are_missed() {
  kIoThread.assert_held();
  if (session_.is_dropped()) return;
  constexpr std::string_view kWhy =
      "a user has more events, and more subscribers to them, than can be delivered";
  session_.state().stats().slow_clients_dropped.add(1);
  session_.state().warnings().warn(Warning::kSlowClient, session_.peer(), kWhy);
  session_.drop(kWhy);
}

}  // namespace locksley::daemon

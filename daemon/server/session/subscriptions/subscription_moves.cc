#include "daemon/server/session/subscriptions/subscription_moves.h"

#include <memory>
#include <string_view>
#include <utility>

#include "daemon/base/loop/slices.h"
#include "daemon/base/time.h"
#include "daemon/server/session/session.h"

namespace locksley::daemon {

namespace {

std::string_view audience_of(const User& user) {
  return user.is_admin() ? Events::kEverything : std::string_view(user.name());
}

}  // namespace

Coroutine<void> SubscriptionMoves::end() {
  Subscriptions& subscriptions = session_.subscriptions();
  Slices& slices = session_.state().slices();
  while (!subscriptions.is_clear()) {
    if (!slices.has_time()) co_await session_.waits().wait_for_slice();
    const Instant began = now();
    const bool is_done = subscriptions.clear_until(began + Slices::kSlice);
    slices.charge(now() - began);
    session_.memory().update();
    if (is_done) break;
  }
}

Coroutine<void> SubscriptionMoves::move_to(UserRef user) {
  if (!user->may(proto::CommandGroup::kRead)) {
    co_await end();
    co_return;
  }
  Subscriptions& subscriptions = session_.subscriptions();
  Slices& slices = session_.state().slices();
  command_moves_ = true;
  for (bool is_done = subscriptions.empty(); !is_done;) {
    if (!slices.has_time()) co_await session_.waits().wait_for_slice();
    const Instant began = now();
    is_done = subscriptions.move_until(audience_of(*user), began + Slices::kSlice);
    slices.charge(now() - began);
  }
  command_moves_ = false;
}

void SubscriptionMoves::follow() {
  Subscriptions& subscriptions = session_.subscriptions();
  subscriptions.restrict_to(audience_of(session_.user()));
  if (command_moves_ || is_following_) return;
  if (subscriptions.move_until(audience_of(session_.user()), Instant::min())) return;
  is_following_ = true;
  auto move = [this, session = session_.shared_from_this()](Instant until) {
    kIoThread.assert_held();
    is_following_ = session->is_logged_in() && !command_moves_ &&
                    !session->subscriptions().move_until(audience_of(session->user()), until);
    return !is_following_;
  };
  session_.state().slices().add(std::move(move), session_.line());
}

}  // namespace locksley::daemon

#include "daemon/base/loop/turns.h"

#include <asio/post.hpp>
#include <utility>

#include "daemon/base/time.h"

namespace locksley::daemon {

void Turns::add(Taker& taker, LineNumber user) {
  if (std::exchange(taker.waits_, true)) return;
  lines_.push(user, &taker);
  ++came_;
  arm();
}

void Turns::arm() {
  if (std::exchange(is_armed_, true)) return;
  asio::post(executor_, [this] { run(); });
}

void Turns::run() {
  is_armed_ = false;
  if (std::exchange(came_, 0) >= kMany) return arm();
  const Instant began = now();
  while (!lines_.empty()) {
    Taker* const taker = lines_.pop().item;
    taker->waits_ = false;
    taker->take_turn();
    const Instant::duration took = now() - began;
    if (took >= (mailbox_.has_functions() ? kRoundBeforeMail : kRound)) break;
  }
  if (!lines_.empty()) arm();
}

}  // namespace locksley::daemon

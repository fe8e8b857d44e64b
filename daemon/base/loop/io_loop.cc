#include "daemon/base/loop/io_loop.h"

#include <asio/post.hpp>
#include <cstddef>
#include <memory>

#include "core/sync/adaptive_spin.h"
#include "daemon/base/loop/io_mailbox.h"

namespace locksley::daemon {

namespace {

// Asio's queue is first in, first out, and the poll of the sockets is one of its entries: after it
// ran, it enters the queue again behind the handlers that it found ready. So a marker that is
// posted when the last one has run stands behind all ready handlers, directly behind that poll.
class Rounds {
 public:
  Rounds(asio::io_context& io, IoStretches& stretches) : io_(io), meter_(stretches) {}

  // Runs the ready handlers, and polls once. False if nothing was ready.
  bool poll() {
    *is_polled_ = false;
    asio::post(io_, [is_polled = is_polled_] { *is_polled = true; });
    std::size_t ran = 0;
    while (!*is_polled_) {
      if (io_.poll_one() == 0) return ran != 0;  // stopped
      ++ran;
    }
    meter_.polled();
    return ran > 1;
  }

 private:
  asio::io_context& io_;
  StretchMeter meter_;
  // Shared with the function that poll() posts: `io` may be stopped before that function runs, and
  // run again after this object has been destroyed.
  const std::shared_ptr<bool> is_polled_ = std::make_shared<bool>(false);
};

}  // namespace

void run_io_loop(asio::io_context& io, const IoLoopHooks& hooks, IoStretches& stretches) {
  IoMailbox& mailbox = IoMailbox::of(io);
  const IoMailbox::Serving serving(mailbox);
  Rounds rounds(io, stretches);
  rounds.poll();  // first the functions that were posted before the mailbox was served
  AdaptiveSpin for_workers;
  AdaptiveSpin for_clients;
  int busy_rounds = 0;
  bool is_overdue = false;  // the deferred work was deferred for a wait
  const auto do_deferred = [&] {
    busy_rounds = 0;
    is_overdue = false;
    if (hooks.do_deferred) hooks.do_deferred();
  };
  while (!io.stopped()) {
    if (++busy_rounds > IoLoopHooks::kMostBusyRounds) do_deferred();
    // The mailbox's functions do not count as work here: the sockets are polled after them.
    mailbox.run();
    if (rounds.poll()) continue;
    AdaptiveSpin& spin = hooks.awaits_worker() ? for_workers : for_clients;
    if (spin.poll(hooks.may_poll(), [&] { return mailbox.run() || rounds.poll() || io.stopped(); })) continue;
    const bool stays_deferred = !is_overdue && hooks.may_stay_deferred && hooks.may_stay_deferred();
    if (!stays_deferred) do_deferred();
    if (!mailbox.begin_sleep()) continue;
    if (stays_deferred) {
      is_overdue = io.run_one_for(IoLoopHooks::kLongestDeferral) == 0;
    } else {
      io.run_one();
    }
    mailbox.end_sleep();
    spin.parked();
  }
}

}  // namespace locksley::daemon

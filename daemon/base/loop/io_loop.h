// The loop of the I/O thread and of other threads with an io_context: how it takes turns between
// sockets, other threads and deferred work, and when it polls instead of sleeping.
#pragma once

#include <asio/io_context.hpp>
#include <chrono>
#include <functional>

#include "daemon/base/loop/stretch_meter.h"

namespace locksley::daemon {

// The loop calls these on its thread, mostly before it waits. They must be cheap.
struct IoLoopHooks {
  std::function<bool()> may_poll;       // whether polling takes no processor time from other threads
  std::function<bool()> awaits_worker;  // whether a client waits for the result of a worker
  // Does the deferred work, which waits until the thread has nothing else to do: before each wait,
  // and once in kMostBusyRounds rounds if the thread does not wait. May be empty.
  std::function<void()> do_deferred = nullptr;
  // Whether the deferred work may wait for one more wait of the thread, of at most
  // kLongestDeferral. May be empty: it may not.
  std::function<bool()> may_stay_deferred = nullptr;

  // The shortest time that epoll_wait() knows.
  static constexpr std::chrono::milliseconds kLongestDeferral{1};
  static constexpr int kMostBusyRounds = 32;  // rounds with work take some 10 us each; a guess
};

// Runs `io` on the calling thread until it is stopped, as io.run() does, in rounds: all ready
// handlers run, then the sockets are polled once. A function that a handler posts runs in the next
// round. A round begins with the functions that other threads have given to the IoMailbox of `io`.
// The work between two polls is counted in `stretches`.
//
// Before the loop blocks, it polls for a while, if polling has recently saved wake-ups
// (core/sync/adaptive_spin.h). The loop learns that separately for waits for a worker, which are
// short, and for waits for clients, which may be long. While the clients are silent, the loop
// blocks.
void run_io_loop(asio::io_context& io, const IoLoopHooks& hooks, IoStretches& stretches);

}  // namespace locksley::daemon

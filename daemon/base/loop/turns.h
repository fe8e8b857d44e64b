// Turns of connections on the thread of a loop, fairly among users.
#pragma once

#include <chrono>
#include <cstddef>

#include "core/pool/worker_stats.h"
#include "daemon/base/loop/io.h"
#include "daemon/base/loop/io_mailbox.h"
#include "daemon/base/loop/user_lines.h"

namespace locksley::daemon {

// The turns of connections that have something to do. They go round users, and then round the
// connections of each: with very many connections of one user that are ready, one of another user
// waits for one turn, not for all of theirs.
//
// Between two polls of the sockets all turns together have kRound. The first connection that is
// ready after a poll has its turn at once, if no other waits: so a connection that is alone is
// never queued.
//
// Owned by ServerState, and by the LinkService for its own thread; outlives all takers, or at least
// the loop. One thread. Nothing blocks; no allocation for a turn (UserLines).
class Turns {
 public:
  static constexpr std::chrono::microseconds kRound{500};  // a quarter of what a poll may be late
  // Only so long if the IoMailbox has functions, which come next: replies to many clients wait for
  // one such function.
  static constexpr std::chrono::microseconds kRoundBeforeMail{100};

  // A connection; lives until it has had the turn for which it waits.
  class Taker {
   public:
    virtual ~Taker() = default;
    virtual void take_turn() = 0;

   private:
    friend class Turns;
    bool waits_ = false;
  };

  // `polls`: how often the sockets have been polled; outlives it.
  Turns(IoExecutor executor, const OwnedCounter& polls)
      : executor_(executor), mailbox_(IoMailbox::of(executor.context())), polls_(polls) {}
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;

  // It has its turn soon, not within this call. No effect if it waits for one already.
  void add(Taker& taker, LineNumber user);
  // For a handler of Asio, which does nothing afterwards: the turn may come within this call.
  void add_or_take(Taker& taker, LineNumber user) {
    if (!lines_.empty() || taken_at_ == polls_.get()) return add(taker, user);
    taken_at_ = polls_.get();
    taker.take_turn();
  }

 private:
  // A poll reports at most 128 sockets that are ready. If it has reported more than half of that,
  // there may be others: they come into their lines before a turn is given.
  static constexpr std::size_t kMany = 64;

  void arm();
  void run();

  const IoExecutor executor_;
  const IoMailbox& mailbox_;
  const OwnedCounter& polls_;
  UserLines<Taker*> lines_;
  std::uint64_t taken_at_ = ~std::uint64_t{0};  // polls_ at the last turn that add_or_take() gave at once
  std::size_t came_ = 0;                        // into the lines, since the last run()
  bool is_armed_ = false;                       // run() comes in the next round
};

}  // namespace locksley::daemon

// Turns of connections on the thread of a loop, fairly among users.
#pragma once

#include <chrono>
#include <cstddef>

#include "core/pool/worker_stats.h"
#include "daemon/base/loop/io.h"
#include "daemon/base/loop/io_mailbox.h"
#include "daemon/base/loop/user_lines.h"

namespace locksley::daemon {

// The turns of connections that have something to do. The users get turns round robin, and so do
// the connections of one user. So if very many connections of one user are ready, a connection of
// another user waits for one of their turns, not for all.
//
// Between two polls of the sockets all turns together have kRound. The first connection that is
// ready after a poll has its turn at once, if no other waits: so a single active connection is
// never queued.
//
// Owned by ServerState, and by the LinkService for its own thread; outlives all takers, or at least
// the loop. One thread. Nothing blocks; no allocation for a turn (UserLines).
class Turns {
 public:
  static constexpr std::chrono::microseconds kRound{500};  // a quarter of IoStretches::kLong
  // The length of a round if the IoMailbox has functions, which run next: replies to many clients
  // may wait for one such function.
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

  // `polls`: how often the sockets have been polled; outlives this object.
  Turns(IoExecutor executor, const OwnedCounter& polls)
      : executor_(executor), mailbox_(IoMailbox::of(executor.context())), polls_(polls) {}
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;

  // The taker has its turn soon, not within this call. No effect if it already waits for a turn.
  void add(Taker& taker, LineNumber user);
  // For a completion handler of Asio, which does nothing after this call: the turn may come within
  // it.
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
  std::size_t came_ = 0;                        // takers that have come into the lines since the last run()
  bool is_armed_ = false;                       // run() comes in the next round
};

}  // namespace locksley::daemon

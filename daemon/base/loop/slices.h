// Long work on the thread of a loop, in slices, fairly among users.
#pragma once

#include <asio/async_result.hpp>
#include <chrono>
#include <cstddef>
#include <functional>
#include <utility>

#include "daemon/base/loop/io.h"
#include "daemon/base/loop/user_lines.h"
#include "daemon/base/time.h"

namespace locksley::daemon {

// Long pieces of work on the thread of a loop, in a line for each user. All slices between two
// polls of the sockets share kRound. The users get slices round robin, and so do the pieces of work
// of one user. A slice has kSlice at most. So clients that ask for little are served between the
// slices, however many others ask for much. A user with much work waits for one slice of each other
// user between its own.
//
// Owned by ServerState, and by the LinkService for its own thread; outlives everything that adds
// work, unless the loop runs no more. One thread. Nothing blocks or fails.
class Slices {
 public:
  static constexpr std::chrono::microseconds kRound{500};  // a quarter of IoStretches::kLong
  static constexpr std::chrono::microseconds kSlice{250};

  // Does a part of the work until about `until`. Returns true when all is done.
  using Work = std::move_only_function<bool(Instant until)>;

  explicit Slices(IoExecutor executor) : executor_(executor) {}
  Slices(const Slices&) = delete;
  Slices& operator=(const Slices&) = delete;

  // The work begins in the next round at the earliest. If the work's owner may be destroyed before
  // the work is done, or may begin it twice, use SlicedWork.
  void add(Work work, LineNumber line = kDaemonsLine) {
    lines_.push(line, std::move(work));
    arm();
  }
  // A coroutine waits for its place at the head of the line, and then has about a slice.
  auto wait_for_slice(LineNumber line) {
    return asio::async_initiate<const asio::use_awaitable_t<IoExecutor>, void()>(
        [this, line](auto handler) {
          auto resume = [handler = std::move(handler)](Instant) mutable {
            std::move(handler)();
            return true;
          };
          add(std::move(resume), line);
        },
        kAwait);
  }

  // Whether the caller may do long work at once: inside a slice, if some of the slice is left;
  // outside, if no other work waits and some time of the round is left. Afterwards the caller
  // passes the time that it took to charge().
  bool has_time() const { return is_running_ ? now() < slice_end_ : lines_.empty() && used_ < kRound; }
  void charge(Instant::duration time) {
    used_ += time;
    arm();
  }
  // The time of a coroutine that does very many small things: it asks is_used_up() after some of
  // them, and if so, waits for a slice before it goes on.
  class Spending {
   public:
    explicit Spending(Slices& slices) : slices_(slices), since_(now()) {}
    // Charges the time since the last call.
    bool is_used_up() {
      const Instant at = now();
      slices_.charge(at - std::exchange(since_, at));
      return !slices_.has_time();
    }
    // The coroutine has its slice.
    void go_on() { since_ = now(); }

   private:
    Slices& slices_;
    Instant since_;
  };
  // The time of sending is estimated from the bytes: a measured time would include the peer, which
  // may run on this processor as soon as it gets them.
  static constexpr std::size_t kMuchToSend = 32 * 1024;
  void charge_sending(std::size_t bytes) {
    constexpr std::chrono::nanoseconds kPerByte{1};  // to the loopback interface, or by TLS
    charge(kPerByte * bytes);
  }

 private:
  void arm();
  void run();

  const IoExecutor executor_;
  UserLines<Work> lines_;
  Instant::duration used_{0};  // of this round
  bool is_armed_ = false;      // run() comes in the next round
  bool is_running_ = false;    // the work of a slice
  Instant slice_end_{};        // while is_running_
};

}  // namespace locksley::daemon

// The flag on which the coroutine of a connection waits.
#pragma once

#include <asio/async_result.hpp>
#include <functional>
#include <utility>

#include "daemon/base/loop/io.h"
#include "daemon/base/loop/turns.h"

namespace locksley::daemon {

// A flag that one coroutine waits for, and that any code on the same thread sets. With it, a
// connection that waits for its socket, a batch, a timer and an order to close is one linear
// coroutine, without races between operations.
//
//   while (!is_done()) { if (!wakeup.take()) co_await wakeup.wait(); }
//
// Owned by the object that the coroutine serves; one thread, that of its Turns. A coroutine that is
// woken resumes when it has its turn. A wake-up without a waiter is kept, so none is lost. Several
// wake-ups may become one, and one may be spurious: check the condition again. Nothing blocks or
// fails.
class Wakeup final : private Turns::Taker {
 public:
  // `turns` outlives it.
  explicit Wakeup(Turns& turns) : turns_(turns) {}
  Wakeup(const Wakeup&) = delete;
  Wakeup& operator=(const Wakeup&) = delete;

  // The line in which the coroutine waits for its turns from now on.
  void set_line(LineNumber line) { line_ = line; }
  LineNumber line() const { return line_; }

  // The coroutine resumes later, not inside this call.
  void wake() {
    if (waiter_) {
      turns_.add(*this, line_);
    } else {
      set_ = true;
    }
  }

  // The coroutine may resume inside this call. For the completion handlers of Asio, which do
  // nothing after it.
  void wake_here() {
    if (waiter_) {
      turns_.add_or_take(*this, line_);
    } else {
      set_ = true;
    }
  }

  // Whether there was a wake-up since the last call; resets it.
  bool take() { return std::exchange(set_, false); }

  // Needs: take() returned false. Await it at once.
  auto wait() {
    return asio::async_initiate<const asio::use_awaitable_t<IoExecutor>, void()>(
        [this](auto handler) { waiter_ = std::move(handler); }, kAwait);
  }

 private:
  void take_turn() override { std::exchange(waiter_, nullptr)(); }

  Turns& turns_;
  LineNumber line_ = kStrangersLine;
  std::move_only_function<void()> waiter_;  // the suspended coroutine
  bool set_ = false;
};

}  // namespace locksley::daemon

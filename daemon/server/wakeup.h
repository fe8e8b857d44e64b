#pragma once

#include <asio/async_result.hpp>
#include <asio/post.hpp>
#include <functional>
#include <utility>

#include "daemon/server/io.h"

namespace locksley::daemon {

// A flag that one coroutine waits for and anyone on its thread sets: how a connection that waits for its
// socket, a batch, a timer and an order to close at once is a single linear coroutine without races between
// operations.
//
//   while (!is_done()) { if (!wakeup.take()) co_await wakeup.wait(); }
//
// A member of what the coroutine works on; the I/O thread only. A wake-up that comes while nobody waits is
// kept, so none is lost; several in a row are one, and one may come with nothing to do: look again. Nothing
// here blocks.
class Wakeup {
 public:
  explicit Wakeup(IoExecutor executor) : executor_(executor) {}
  Wakeup(const Wakeup&) = delete;
  Wakeup& operator=(const Wakeup&) = delete;

  // The coroutine goes on in a while, not inside this call.
  void wake() {
    if (waiter_) {
      asio::post(executor_, std::exchange(waiter_, nullptr));
    } else {
      set_ = true;
    }
  }

  // The same, but inside this call: for the end of an operation of Asio, which has nothing to do after it.
  void wake_here() {
    if (waiter_) {
      std::exchange(waiter_, nullptr)();
    } else {
      set_ = true;
    }
  }

  // Whether there was a wake-up since the last; resets it.
  bool take() { return std::exchange(set_, false); }

  // Needs: take() was false. To be awaited at once.
  auto wait() {
    return asio::async_initiate<const asio::use_awaitable_t<IoExecutor>, void()>(
        [this](auto handler) { waiter_ = std::move(handler); }, kAwait);
  }

 private:
  IoExecutor executor_;
  std::move_only_function<void()> waiter_;  // the suspended coroutine
  bool set_ = false;
};

}  // namespace locksley::daemon

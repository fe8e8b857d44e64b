// The order of the steps of TLS handshakes.
#pragma once

#include <asio/any_io_executor.hpp>
#include <asio/associated_executor.hpp>
#include <asio/async_result.hpp>
#include <asio/dispatch.hpp>
#include <asio/ip/address.hpp>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <utility>

namespace locksley::daemon {

// Limits handshakes to one step in each iteration of the I/O loop. A step takes 0.3 ms or more of
// the I/O thread, so between two steps all other ready handlers run. Sources are served
// round-robin, so that a source that connects in a loop delays only itself.
//
//   co_await queue.wait_for_step(address, token);  channel.handshake();
//
// ServerState owns the queue of the I/O thread, which the HTTP server uses, too; LinkService owns
// the queue of its own thread. One thread. Nothing blocks. A wait cannot be cancelled: after it,
// the caller must check whether the handshake is still wanted.
class HandshakeQueue {
 public:
  explicit HandshakeQueue(asio::any_io_executor executor) : executor_(std::move(executor)) {}
  HandshakeQueue(const HandshakeQueue&) = delete;
  HandshakeQueue& operator=(const HandshakeQueue&) = delete;

  // Completes when the caller may make one step; the caller must make it at once. `source`: the
  // peer's address. All addresses of one IPv6 network of 64 bits, which a provider gives to one
  // customer, are one source.
  template <class Token>
  auto wait_for_step(const asio::ip::address& source, Token&& token) {
    return asio::async_initiate<Token, void()>(
        [this, source](auto handler) {
          add(source, [handler = std::move(handler)]() mutable {
            const auto executor = asio::get_associated_executor(handler);
            asio::dispatch(executor, std::move(handler));
          });
        },
        token);
  }

  std::size_t waiting() const { return waiting_count_; }

 private:
  using Step = std::move_only_function<void()>;
  void add(const asio::ip::address& source, Step step);
  void post_next();
  void serve_next();

  const asio::any_io_executor executor_;
  std::map<asio::ip::address, std::deque<Step>> waiting_;  // by source; no deque is empty
  std::deque<asio::ip::address> order_;                    // the keys of waiting_, the next first
  std::size_t waiting_count_ = 0;
  bool posted_ = false;  // serve_next() has been posted and has not run
};

}  // namespace locksley::daemon

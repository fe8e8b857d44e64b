// Who may do a step of a TLS handshake next.
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

// A step of a handshake takes 0.3 ms and more of the thread that serves everybody. So there
// is one in a turn of the I/O loop: between two of them all who have something to do have done it. Sources
// are served in turn, so that one that connects in a loop delays itself.
//
//   co_await queue.turn(address, token);  channel.handshake();
//
// Owned by the Server; the I/O thread only. Nothing blocks. Whoever waits gets a turn, soon; it cannot be
// given up, so look afterwards whether the step is still wanted.
class HandshakeQueue {
 public:
  explicit HandshakeQueue(asio::any_io_executor executor) : executor_(std::move(executor)) {}
  HandshakeQueue(const HandshakeQueue&) = delete;
  HandshakeQueue& operator=(const HandshakeQueue&) = delete;

  // Completes when it is the turn of the caller, which then does one step at once. `source`: the peer's
  // address; of IPv6 the network counts, of which one peer has all addresses.
  template <class Token>
  auto turn(const asio::ip::address& source, Token&& token) {
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
  using Turn = std::move_only_function<void()>;
  void add(const asio::ip::address& source, Turn turn);
  void post_next();
  void serve_next();

  const asio::any_io_executor executor_;
  std::map<asio::ip::address, std::deque<Turn>> waiting_;  // by source; none of them empty
  std::deque<asio::ip::address> order_;                    // its keys, the next first
  std::size_t waiting_count_ = 0;
  bool posted_ = false;  // serve_next() is on its way
};

}  // namespace locksley::daemon

#include "daemon/tls/handshake_queue.h"

#include <algorithm>
#include <asio/post.hpp>
#include <utility>

namespace locksley::daemon {
namespace {

asio::ip::address network_of(const asio::ip::address& address) {
  if (!address.is_v6() || address.to_v6().is_v4_mapped()) return address;
  auto bytes = address.to_v6().to_bytes();
  std::fill(bytes.begin() + 8, bytes.end(), static_cast<unsigned char>(0));
  return asio::ip::address_v6(bytes);
}

}  // namespace

void HandshakeQueue::add(const asio::ip::address& source, Turn turn) {
  const asio::ip::address network = network_of(source);
  std::deque<Turn>& turns = waiting_[network];
  if (turns.empty()) order_.push_back(network);
  turns.push_back(std::move(turn));
  ++waiting_count_;
  post_next();
}

void HandshakeQueue::post_next() {
  if (waiting_count_ == 0 || std::exchange(posted_, true)) return;
  asio::post(executor_, [this] { serve_next(); });
}

void HandshakeQueue::serve_next() {
  posted_ = false;
  const asio::ip::address source = order_.front();
  order_.pop_front();
  const auto found = waiting_.find(source);
  Turn turn = std::move(found->second.front());
  found->second.pop_front();
  if (found->second.empty()) {
    waiting_.erase(found);
  } else {
    order_.push_back(source);
  }
  --waiting_count_;
  turn();
  // Behind everything that is ready by now, what this turn has brought about included.
  post_next();
}

}  // namespace locksley::daemon

#include "daemon/tls/handshake_queue.h"

#include <asio/post.hpp>
#include <utility>

#include "daemon/base/net/peer_network.h"

namespace locksley::daemon {

void HandshakeQueue::add(const asio::ip::address& source, Step step) {
  const asio::ip::address network = network_of(source);
  std::deque<Step>& steps = waiting_[network];
  if (steps.empty()) order_.push_back(network);
  steps.push_back(std::move(step));
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
  Step step = std::move(found->second.front());
  found->second.pop_front();
  if (found->second.empty()) {
    waiting_.erase(found);
  } else {
    order_.push_back(source);
  }
  --waiting_count_;
  step();
  // The next step runs after all handlers that are ready now, including those that this step made
  // ready.
  post_next();
}

}  // namespace locksley::daemon

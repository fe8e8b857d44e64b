// The requests that wait until their password is checked, bounded for each network.
#pragma once

#include <asio/ip/address.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/auth/verdict.h"

namespace locksley::daemon {

// Each request that waits holds its connection. Without a bound, one address that sends wrong
// passwords would hold all of HttpLimits::max_connections, and clients at the same address, whose
// passwords are accepted at once, would be turned away. The users of a network share its bound: the
// one with most requests gives way.
//
// A part of HttpLogin; the I/O thread only. Nothing blocks. The time of a call grows with the
// number of requests that wait, which the number of connections bounds.
class LoginWaits {
 public:
  // Half of the connections, and as many checks as wait of one source (CheckQueue::kMostOfSource).
  static constexpr std::size_t kMostOfNetwork = 32;

  // A request that waits for the check. Owned by the function that the Authenticator calls.
  class Wait {
   public:
    // `answer` is called once.
    explicit Wait(std::function<void(Verdict)> answer) : answer_(std::move(answer)) {}
    // Later calls have no effect.
    void end(Verdict verdict) {
      if (const auto answer = std::exchange(answer_, nullptr)) answer(verdict);
    }
    bool has_ended() const { return answer_ == nullptr; }

   private:
    std::function<void(Verdict)> answer_;
  };

  // Adds a request that waits. If the network has no room, it or another one ends with
  // Verdict::kBusy.
  void add(const asio::ip::address& network, const std::string& user, const std::shared_ptr<Wait>& wait);

 private:
  struct Entry {
    asio::ip::address network;
    std::string user;
    std::weak_ptr<Wait> wait;
  };
  std::vector<Entry> entries_;  // the oldest first; some have ended
};

}  // namespace locksley::daemon

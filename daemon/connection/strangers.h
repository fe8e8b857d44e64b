// Which connection gives way to a new one at limits.max_clients.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "daemon/base/time.h"

namespace locksley::daemon {

// The connections of a port that have not logged in, by the address of their peer. When
// limits.max_clients is reached, one of them gives way to a new connection: else a host without a
// password could keep all places until limits.login_timeout, again and again.
//
// Owned by Sessions, and by the LinkService for the port for workers. Each has a thread of its own,
// and guards this object, and the places in it, with the role of that thread. Nothing blocks. Each
// call takes O(log n).
class Strangers {
 public:
  // A connection that is younger has time to log in. Guess: many times what a login takes.
  static constexpr std::chrono::seconds kPatience{1};
  // Those that give way are not closed yet when the new ones are here: so there may be this many
  // more than limits.max_clients.
  static constexpr std::size_t kMostAbove = 16;

  Strangers() = default;
  Strangers(const Strangers&) = delete;
  Strangers& operator=(const Strangers&) = delete;

  // The place of one connection. A member of it; the connection calls leave() at its end.
  class Place {
   public:
    // `address`: of the peer, without its port.
    Place(Strangers& all, std::uint64_t id, std::string address)
        : all_(all), id_(id), address_(std::move(address)) {}
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;

    // It may have to give way; it has not been logged in since this instant.
    void enter(Instant since) {
      leave();
      since_ = since;
      all_.change(address_, [&](auto& connections) { connections.emplace(since, id_); });
    }
    // A password for it is being checked. During the first check it need not give way; during
    // further ones it must, since a peer may send one wrong password after another. enter() comes
    // afterwards if the check fails.
    void check_begins() {
      if (!std::exchange(was_checked_, true)) leave();
    }
    // It need not. No effect if it has not entered.
    void leave() {
      if (!since_) return;
      all_.change(address_, [&](auto& connections) { connections.erase({*since_, id_}); });
      since_.reset();
    }

   private:
    Strangers& all_;
    const std::uint64_t id_;
    const std::string address_;
    std::optional<Instant> since_;  // none: it is not among them
    bool was_checked_ = false;
  };

  // The id of the connection that gives way: the oldest of the address that has most. None if that
  // is not older than kPatience.
  std::optional<std::uint64_t> first_to_go(Instant at) const {
    if (by_number_.empty()) return std::nullopt;
    const auto [since, id] = *by_address_.find(by_number_.rbegin()->second)->second.begin();
    return at - since > kPatience ? std::optional(id) : std::nullopt;
  }

 private:
  using Connections = std::set<std::pair<Instant, std::uint64_t>>;  // the oldest first

  void change(const std::string& address, auto how) {
    const auto at = by_address_.try_emplace(address).first;
    if (!at->second.empty()) by_number_.erase({at->second.size(), address});
    how(at->second);
    if (!at->second.empty()) {
      by_number_.emplace(at->second.size(), address);
    } else {
      by_address_.erase(at);
    }
  }

  std::map<std::string, Connections> by_address_;  // none is empty
  std::set<std::pair<std::size_t, std::string>> by_number_;
};

}  // namespace locksley::daemon

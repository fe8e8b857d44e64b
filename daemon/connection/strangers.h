// Which connection gives way to a new one at limits.max_clients.
#pragma once

#include <asio/ip/address.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "daemon/base/net/peer_network.h"
#include "daemon/base/time.h"

namespace locksley::daemon {

// The connections of a port that have not logged in, by the network of their peer (network_of()).
// When limits.max_clients is reached, one of them gives way to a new connection: else a host
// without a password could keep all places until limits.login_timeout, again and again.
//
// Owned by Sessions, and by the LinkService for the port for workers. Each has a thread of its own,
// and guards this object, and the entries in it, with the role of that thread. Nothing blocks. Each
// call takes O(log n).
class Strangers {
 public:
  // A connection that is younger has time to log in. Guess: many times what a login takes.
  static constexpr std::chrono::seconds kPatience{1};
  // A connection that gives way is still open when the new one arrives. So there may be this many
  // connections above limits.max_clients.
  static constexpr std::size_t kMostAbove = 16;

  Strangers() = default;
  Strangers(const Strangers&) = delete;
  Strangers& operator=(const Strangers&) = delete;

  // A connection's place among the strangers. A member of the connection, which calls leave() at
  // its end.
  class Entry {
   public:
    Entry(Strangers& all, std::uint64_t id, const asio::ip::address& peer)
        : all_(all), id_(id), network_(network_of(peer)) {}
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;

    // From now on the connection may have to give way; it has not been logged in since `since`.
    void enter(Instant since) {
      leave();
      since_ = since;
      all_.by_age_.emplace(since, id_);
      all_.change(network_, [&](Connections& connections) { connections.emplace(since, id_); });
    }
    // A password for it is being checked. During the first check it need not give way; during
    // further ones it must, since a peer may send one wrong password after another. enter() comes
    // afterwards if the check fails.
    void check_begins() {
      if (!std::exchange(was_checked_, true)) leave();
    }
    // The connection need not give way any more. No effect if it has not entered.
    void leave() {
      if (!since_) return;
      all_.by_age_.erase({*since_, id_});
      all_.change(network_, [&](Connections& connections) { connections.erase({*since_, id_}); });
      since_.reset();
    }

   private:
    Strangers& all_;
    const std::uint64_t id_;
    const asio::ip::address network_;
    std::optional<Instant> since_;  // none: it is not among them
    bool was_checked_ = false;
  };

  // The id of the connection that gives way: the oldest of the network with the most connections.
  // If that one is not older than kPatience, the oldest of all: otherwise a host could keep the
  // places of other networks with a few young connections. None: none is older than kPatience.
  std::optional<std::uint64_t> first_to_go(Instant at) const {
    if (by_age_.empty()) return std::nullopt;
    for (const auto& [since, id] :
         {*by_network_.find(by_number_.rbegin()->second)->second.begin(), *by_age_.begin()}) {
      if (at - since > kPatience) return id;
    }
    return std::nullopt;
  }

 private:
  using Connections = std::set<std::pair<Instant, std::uint64_t>>;  // the oldest first

  void change(const asio::ip::address& network, auto how) {
    const auto at = by_network_.try_emplace(network).first;
    if (!at->second.empty()) by_number_.erase({at->second.size(), network});
    how(at->second);
    if (!at->second.empty()) {
      by_number_.emplace(at->second.size(), network);
    } else {
      by_network_.erase(at);
    }
  }

  std::map<asio::ip::address, Connections> by_network_;  // none is empty
  std::set<std::pair<std::size_t, asio::ip::address>> by_number_;
  Connections by_age_;  // all
};

}  // namespace locksley::daemon

// Which of several daemons a client tries next.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proto/clients/cpp/error.h"
#include "proto/clients/cpp/url.h"

namespace locksley::client {

// Which address a client tries next in search of the daemon that serves: those of a list in turn,
// those that a daemon has named as its neighbours, and the one that a daemon on standby names. It
// decides only; the caller connects and pauses. User, password and TLS are those of the list: a
// daemon names no more than a host and a port.
//
// Owned by a client, used from one thread at a time. Nothing blocks or fails.
class Route {
 public:
  // When to make the next attempt. After kAtOnce there are at most two attempts for each address of
  // the list before kAfterPause.
  enum class Next : std::uint8_t { kAtOnce, kAfterPause };

  // Where a daemon may send the client: anywhere, or only to addresses of this machine.
  enum class Reach : std::uint8_t { kAnywhere, kThisMachine };

  // `addresses`: at least one; the first is tried first.
  explicit Route(std::vector<Address> addresses, Reach reach = Reach::kAnywhere);

  // Addresses of other daemons of the same cluster, as HOST:PORT, which are tried after those of
  // the list; the first kMostNamed of them. They replace those that were named before; a word that
  // is no address, or an address out of reach, is left out. current() stays.
  static constexpr std::size_t kMostNamed = 16;  // guess: no cluster has so many daemons
  void name_others(const std::vector<std::string>& addresses);

  // The address of the next attempt, or of the connection.
  const Address& current() const { return current_; }
  bool is_list() const { return addresses_.size() > 1; }
  // All addresses that it tries, for messages, separated by commas.
  std::string text() const { return text_of(addresses_); }

  // Chooses the next attempt after an error of the attempt at current(). Nothing: no other attempt
  // or address can help.
  std::optional<Next> after(const ClientError& error);
  // The possible outcomes of the attempt; the first three functions choose the next attempt. In a
  // list, the address of a connection that served and broke is tried once more before the others.
  Next unreachable();
  // `reply`: the error of a daemon on standby, `READONLY the active daemon is HOST:PORT`.
  // Credentials and TLS are those of current(). A reply without an address counts as unreachable.
  Next standing_by(std::string_view reply);
  // The daemon takes over, and will serve as soon as it has read the store; or it was paused, and
  // does not know yet whether another one serves. It is asked once more; then the next address of
  // the list is tried.
  Next loading();
  void serving();

 private:
  Next pause();
  void advance();  // current() becomes the next address of the list
  // The address that a daemon has named; none: the word is no address, or is out of reach.
  std::optional<Address> named(std::string_view word) const;

  std::vector<Address> addresses_;  // the first `given_` are those of the constructor
  std::size_t given_;
  Reach reach_;
  std::size_t index_ = 0;  // of the next address of the list, or of current_
  Address current_;
  std::size_t failures_ = 0;   // since the last pause
  bool has_served_ = false;    // current(), in its last attempt
  bool is_loading_ = false;    // current() is asked once more
  bool has_followed_ = false;  // the address that a daemon named, since the last pause
};

// Whether the error, READONLY or LOADING, says that the daemon executed nothing because it is not
// the one that serves.
bool is_elsewhere(std::string_view error_code);

}  // namespace locksley::client

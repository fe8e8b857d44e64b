// When, and to which address, the link connects next.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/job.h"
#include "proto/clients/cpp/backoff.h"
#include "proto/clients/cpp/route.h"
#include "proto/clients/cpp/url.h"

namespace locksley::daemon {

// The attempts to connect, one after the other: the next address, at once or after a pause, and
// since when all attempts have been refused because the upstream has no handler of the link.
// README.md has the order of addresses, and the pauses.
//
// A member of the link; one thread; nothing blocks or fails.
class ConnectionAttempts {
 public:
  // `addresses`: at least one. `seed`: of the random part of the pauses. The first attempt is due
  // at `now`.
  ConnectionAttempts(const std::vector<client::Address>& addresses, client::Route::Reach reach,
                     std::uint64_t seed, Nanoseconds now);

  // The address of the next attempt, or of the connection.
  const client::Address& address() const { return route_.current(); }
  bool has_other_addresses() const { return route_.is_list(); }
  // When the next attempt is due, while there is no connection.
  Nanoseconds next_at() const { return next_at_; }

  // How an attempt ended, or the connection that it made.
  struct Outcome {
    std::string_view trouble;
    bool has_joined = false;
    bool holds_leases = false;  // then the pause is short: the upstream keeps the leases for some seconds
  };
  // The attempt, or its connection, has ended: chooses the next attempt.
  void ended(const Outcome& outcome, Nanoseconds now);
  // JOIN has succeeded, and its reply named other daemons of the cluster.
  void joined(const std::vector<std::string>& others);
  // This attempt is refused because the upstream has no handler of the link. Returns since when all
  // attempts have been refused for this reason.
  Nanoseconds refused_for_handlers(Nanoseconds now);

 private:
  // True: the next attempt comes after a pause.
  bool choose_next_address(const Outcome& outcome);
  Nanoseconds pause(const Outcome& outcome);

  client::Backoff backoff_;
  client::Route route_;
  Nanoseconds next_at_;
  // When the last unbroken series of refused_for_handlers() began; none: the last attempt ended
  // otherwise.
  std::optional<Nanoseconds> without_handlers_since_;
  bool is_without_handlers_ = false;  // this attempt was refused_for_handlers()
};

}  // namespace locksley::daemon

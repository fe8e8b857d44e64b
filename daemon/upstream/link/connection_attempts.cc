#include "daemon/upstream/link/connection_attempts.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace locksley::daemon {
namespace {

constexpr std::chrono::milliseconds kFirstPause{100};
constexpr std::chrono::milliseconds kLongestPause{5'000};
// While the link holds leases: after a restart the upstream waits for workers.reclaim, 3 s by
// default, before it gives the jobs to others. With this pause, and UpstreamConnection's time for
// an address that does not answer, two addresses are tried within that time.
constexpr std::chrono::milliseconds kLongestPauseWithLeases{1'000};

}  // namespace

ConnectionAttempts::ConnectionAttempts(const std::vector<client::Address>& addresses,
                                       client::Route::Reach reach, std::uint64_t seed, Nanoseconds now)
    : backoff_(seed, kFirstPause, kLongestPause), route_(addresses, reach), next_at_(now) {}

void ConnectionAttempts::ended(const Outcome& outcome, Nanoseconds now) {
  if (!std::exchange(is_without_handlers_, false)) without_handlers_since_.reset();
  const bool waits = choose_next_address(outcome);
  next_at_ = waits ? now + pause(outcome) : now;
}

bool ConnectionAttempts::choose_next_address(const Outcome& outcome) {
  using Next = client::Route::Next;
  Next next = Next::kAfterPause;
  if (outcome.trouble.starts_with("READONLY ")) {
    next = route_.standing_by(outcome.trouble);
  } else if (outcome.trouble.starts_with("LOADING ")) {
    next = route_.loading();
  } else {
    next = route_.unreachable();
  }
  // Otherwise an upstream that closes connections after their JOIN would be asked again without a
  // pause.
  return outcome.has_joined || next == Next::kAfterPause;
}

Nanoseconds ConnectionAttempts::pause(const Outcome& outcome) {
  const std::chrono::milliseconds pause = backoff_.next();
  return outcome.holds_leases ? std::min(pause, kLongestPauseWithLeases) : pause;
}

void ConnectionAttempts::joined(const std::vector<std::string>& others) {
  backoff_.reset();
  route_.serving();
  route_.name_others(others);
}

Nanoseconds ConnectionAttempts::refused_for_handlers(Nanoseconds now) {
  is_without_handlers_ = true;
  if (!without_handlers_since_) without_handlers_since_ = now;
  return *without_handlers_since_;
}

}  // namespace locksley::daemon

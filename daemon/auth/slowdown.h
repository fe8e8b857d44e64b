// How long a source of wrong passwords must wait before its next check.
#pragma once

#include <chrono>
#include <cstddef>
#include <list>
#include <map>
#include <string>

#include "daemon/base/time.h"

namespace locksley::daemon {

// The sources that gave wrong passwords, and how long each must wait before its next check: twice
// as long after each failure, up to `longest`, until kForgotten has passed without a failure. No
// source is locked out: a stock redis-py with a wrong password makes 11 attempts in 3.5 s; with the
// right password it is then served within kLongest. A source is a text: an address, or an address
// and a user.
//
// A success does not clear a source's failures: otherwise a user with a password could guess those
// of others at full speed. A password that is remembered as right is not slowed, except by the
// bound on look-ups of passwords that were accepted from other sources.
//
// Owned by the CheckQueue; not synchronised: the I/O thread. Nothing blocks. The caller passes the
// time. The table is bounded: when it is full, the source whose last failure is oldest is
// forgotten.
class Slowdown {
 public:
  using Time = Instant;
  static constexpr std::chrono::milliseconds kFirst{100};
  static constexpr std::chrono::milliseconds kLongest{1600};
  static constexpr std::chrono::seconds kForgotten{60};
  static constexpr std::size_t kMost = 4096;  // guess: some 600 KB

  explicit Slowdown(std::size_t most = kMost, std::chrono::milliseconds longest = kLongest)
      : most_(most), longest_(longest) {}

  void failed(const std::string& source, Time now);
  // When the next password of this source may be checked; in the past for most sources.
  Time due(const std::string& source) const;
  // Whether a password of this source may be looked up now among those that were accepted from
  // other sources. A look-up takes microseconds, so unlimited look-ups would allow thousands of
  // guesses a second: a source that failed may make one in kFirst.
  bool may_look_up(const std::string& source, Time now);
  std::size_t size() const { return by_name_.size(); }

 private:
  struct Slowed {
    std::string source;
    std::chrono::milliseconds delay;
    Time failed;
    Time looked_up;
  };

  const std::size_t most_;
  const std::chrono::milliseconds longest_;
  std::list<Slowed> slowed_;  // in the order of their last failures, oldest first
  std::map<std::string, std::list<Slowed>::iterator> by_name_;
};

}  // namespace locksley::daemon

#pragma once

#include <chrono>
#include <cstddef>
#include <list>
#include <map>
#include <string>

namespace locksley::daemon {

// Sources that gave wrong passwords, and how long each waits until its next one is looked at: twice as long
// for each failure, up to a bound, until a quiet minute is over. Nobody is locked out: a stock redis-py with
// a wrong password tries 11 times in 3.5 s, and with the right one afterwards it is served after kLongest.
//
// A success changes nothing, or else who has a password of his own could try those of others at full speed.
// A password that is remembered as right is not slowed, but for a bound on look-ups.
//
// The table is bounded; the source whose failure is longest ago goes first. Time is passed in. I/O thread.
class Slowdown {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::milliseconds kFirst{100};
  static constexpr std::chrono::milliseconds kLongest{1600};
  static constexpr std::chrono::seconds kForgotten{60};
  static constexpr std::size_t kMost = 4096;  // guess: some 600 KB

  explicit Slowdown(std::size_t most = kMost) : most_(most) {}

  void failed(const std::string& source, Time now);
  // When the next password of this source may be looked at; for most that is long ago.
  Time due(const std::string& source) const;
  // Whether a password of this source may be looked up among those that are remembered. A look-up is so fast
  // that whoever tries passwords could try thousands a second; so a source that failed may do it only once in
  // kFirst.
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
  std::list<Slowed> slowed_;  // the last failure that is longest ago first
  std::map<std::string, std::list<Slowed>::iterator> by_name_;
};

}  // namespace locksley::daemon

// Passwords that wait to be checked, and whose turn it is.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "daemon/auth/accepted_passwords.h"
#include "daemon/auth/secret.h"
#include "daemon/auth/slowdown.h"
#include "daemon/auth/verdict.h"

namespace locksley::daemon {

// Sources are served in turn, one check each, so that one that tries passwords in a loop delays itself alone.
// Of a source that failed, nothing is taken before its time (Slowdown). Connections of one source that ask
// the same, as those of a client that comes back do, wait for one check together.
//
// At kMostOfSource checks, and at kMost in all, somebody is told that it is too much: at the latter the
// source with the longest queue, which need not be the one that asks. Time is passed in. I/O thread.
class CheckQueue {
 public:
  using Time = Slowdown::Time;
  using Done = std::function<void(Verdict)>;
  using Askers = std::vector<Done>;

  // Both so that the last is answered before limits.login_timeout, 10 s, ends its connection: at 1.6 s each
  // for one source that is slowed, at 100 ms each for many sources.
  static constexpr std::size_t kMostOfSource = 6;
  static constexpr std::size_t kMost = 64;
  static constexpr std::size_t kMostAskers = 20'000;  // guess: more than a daemon has connections

  struct Check {
    std::string source;
    std::string user;
    std::string hash;  // empty: nobody's
    Secret password;
    AcceptedPasswords::Digest digest;
    Askers askers;
  };

  // Whether a password of this source may be looked up among those that are remembered, and answered without
  // a turn. Not while another of its own waits, which may be the first of many that are tried at once.
  bool may_look_up(const std::string& source, Time now);

  // `check.askers` are those who ask now. Returns whom there is no room for.
  [[nodiscard]] Askers put(Check check);

  // The next that is due, which stays here until finish(); null if none is, or if one has been taken.
  const Check* take(Time now);
  // When the next will be due; nothing if none waits, or if one has been taken.
  std::optional<Time> next_due() const;
  // What was taken is answered. If it was accepted, so are all that wait with the same password.
  [[nodiscard]] Askers finish(Verdict verdict, Time now);

  std::size_t size() const { return size_; }  // that wait

 private:
  using Waiting = std::map<std::string, std::deque<Check>>;  // by source; none is empty

  Check* find_same(const Check& check);
  Askers remove(Waiting::iterator source, std::size_t index);

  Waiting waiting_;
  std::deque<std::string> turns_;  // the keys of waiting_
  std::optional<Check> taken_;
  Slowdown slowdown_;
  std::size_t size_ = 0;
  std::size_t askers_ = 0;  // of all that wait, and of what was taken
};

}  // namespace locksley::daemon

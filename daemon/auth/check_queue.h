// Passwords that wait to be checked, and the order of their checks.
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

// A bounded queue of checks. It serves the sources round-robin, one check each, and the users of a
// source round-robin, too. So a source that guesses passwords in a loop delays only itself; and
// where many clients share a source, such as a proxy, guesses for one user delay another user's
// check by one check. Equal checks of one source, such as those of a client's many connections, are
// one check.
//
// After a failure, the next check for the same user from the same source is delayed, longer each
// time (Slowdown). The next check of the source for any user is delayed by Slowdown::kFirst, so
// that one source cannot keep the thread busy with guesses for many users.
//
// A user may have kMostOfUser waiting checks from one source; a further one is refused. When a
// source has kMostOfSource, its user with the longest queue loses the last check. When kMost checks
// wait in total, the source with the longest queue loses one in the same way. If no queue is longer
// than the new check's own would be, the new check is refused.
//
// Owned by the Authenticator; not synchronised: the I/O thread. Nothing blocks. The caller passes
// the time.
class CheckQueue {
 public:
  using Time = Slowdown::Time;
  using Done = std::function<void(Verdict)>;
  using Askers = std::vector<Done>;

  // All three are chosen so that the last waiting check ends before limits.login_timeout, 10 s,
  // closes its connection: a check takes 1.6 s for one slowed user, 200 ms for one slowed source,
  // and 100 ms for many sources.
  static constexpr std::size_t kMostOfUser = 6;
  static constexpr std::size_t kMostOfSource = 32;
  static constexpr std::size_t kMost = 64;
  static constexpr std::size_t kMostAskers = 20'000;  // guess: more than a daemon has connections
  // The longest name that a user can have (config/rules.cc). The caller cuts longer names to one
  // character more, which keeps them apart from all users, and bounds what the queue keeps of them.
  static constexpr std::size_t kLongestUser = 64;

  struct Check {
    std::string source;
    std::string user;
    std::string hash;  // empty: the user is unknown or has no password
    Secret password;
    AcceptedPasswords::Digest digest;
    Askers askers;
  };

  // Whether a password that was accepted from other sources only may be looked up for this source
  // now. Not while another check of the source waits: the two may be the first of many guesses sent
  // at once.
  bool may_look_up(const std::string& source, Time now);

  // Adds a check; its `askers` are the callers that want its verdict now. Returns the askers for
  // which the queue has no room.
  [[nodiscard]] Askers put(Check check);

  // The next check that is due. It stays in the queue until finish(). Null if none is due, or one
  // is taken.
  const Check* take(Time now);
  // When the next check will be due; nothing if no check waits, or one is taken.
  std::optional<Time> next_due() const;
  // Removes the check that was taken, and returns its askers. If the password was accepted, also
  // removes all equal checks of other sources, and returns their askers.
  [[nodiscard]] Askers finish(Verdict verdict, Time now);

  std::size_t size() const { return size_; }  // waiting checks

 private:
  using Users = std::map<std::string, std::deque<Check>>;  // by name; none is empty
  struct Source {
    Users users;                    // not empty
    std::deque<std::string> round;  // the keys of `users`, in the order of service
    std::size_t size = 0;           // checks of all users
  };
  using Sources = std::map<std::string, Source>;

  Check* find_same(const Check& check);
  // The source that gives way to a new check of `own`, which now has `of_source` checks, including
  // `of_user` for the check's user; end(): the new check gives way.
  Sources::iterator find_victim(Sources::iterator own, std::size_t of_source, std::size_t of_user);
  static Users::iterator longest_of(Source& source);
  Askers remove(Sources::iterator source, Users::iterator user, std::size_t index);
  // The user of this source whose check is due; end() of its round: none is.
  std::deque<std::string>::iterator find_due(const std::string& name, Source& source, Time now) const;

  Sources waiting_;
  std::deque<std::string> round_;  // the keys of waiting_, in the order of service
  std::optional<Check> taken_;
  Slowdown by_user_;  // by source and user: key_of()
  Slowdown by_source_{Slowdown::kMost, Slowdown::kFirst};
  std::size_t size_ = 0;
  std::size_t askers_ = 0;  // of all waiting checks, and of the one that is taken
};

}  // namespace locksley::daemon

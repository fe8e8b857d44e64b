// Whether a password is that of a user.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daemon/auth/verdict.h"
#include "daemon/server/io.h"

namespace locksley::daemon {

// Checks passwords against argon2id hashes on a thread of its own, since a check is made to take long (some
// 50 to 200 ms and tens of MiB), one at a time.
//
// What was accepted is remembered as a keyed digest (AcceptedPasswords), so that a client that connects again
// with the same password is accepted at once, however many connections there are; the digest is of the hash
// too, so a changed password is asked for anew. Those that wait are served in turn by source, and are bounded
// in number (CheckQueue). A source that failed waits longer before its next is looked at (Slowdown).
// Passwords are wiped when they have been looked at.
//
// Owned by main(); every call is made on the I/O thread, and none blocks. The thread begins with the first
// check that needs it, and sleeps while there is none.
class Authenticator {
 public:
  using Done = std::function<void(Verdict)>;

  explicit Authenticator(IoExecutor executor);
  // Checks that wait are forgotten without an answer; waits for the one that is under way.
  ~Authenticator();
  Authenticator(const Authenticator&) = delete;
  Authenticator& operator=(const Authenticator&) = delete;

  // `source`: the peer's address, without the port; an IPv6 network of 64 bits, which is what one customer
  // gets, counts as one. `hash`: of the user, as the configuration has it; empty if there is no such user, or
  // none with a password, which takes as long as a wrong password. `password` is wiped. `done` is called
  // once, on the I/O thread: mostly within the call if the password is known to be right, or if too many
  // wait. It may ask again, but not destroy the Authenticator.
  void check(std::string source, std::string user, std::string hash, std::string password, Done done);

  // The hashes of all users in force; to be told anew when they change. A name that nobody has takes as long
  // as one of these does, the same for the same name, so that nobody learns names where costs differ. While
  // there are none, it takes as long as a hash at the default cost.
  void set_hashes(std::vector<std::string> hashes);

  // How many were refused; for metrics.
  std::uint64_t failures() const;

 private:
  class Impl;
  const std::shared_ptr<Impl> impl_;  // what the thread posts holds it weakly: the last owner is this
};

}  // namespace locksley::daemon

// Checks users' passwords.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daemon/auth/verdict.h"
#include "daemon/base/loop/io.h"

namespace locksley::daemon {

// Checks passwords against argon2id hashes, one at a time, on a thread of its own, because a check
// is slow by design: some 50 to 200 ms and tens of MiB.
//
// An accepted password is remembered as a keyed digest (AcceptedPasswords), so that a client that
// connects again is accepted at once, even while wrong passwords from its source wait. The digest
// includes the user's hash: after a change of the hash the password is checked again. Waiting
// checks are served round-robin by source, and within a source by user; their number is bounded
// (CheckQueue). After a failure, the source's next check for that user is delayed (Slowdown).
// Passwords are wiped after their check.
//
// A member of ServingParts (daemon/parts.h), and of Standby::Desk. All calls and callbacks are on
// the I/O thread, and no call blocks, but the destructor waits for the check under way. The first
// check starts the thread, which sleeps while no check waits. A check that cannot get the memory
// for its hash counts as a wrong password.
class Authenticator {
 public:
  using Done = std::function<void(Verdict)>;

  explicit Authenticator(IoExecutor executor);
  // Drops the checks that wait, without calling their `done`, and waits for the check under way.
  ~Authenticator();
  Authenticator(const Authenticator&) = delete;
  Authenticator& operator=(const Authenticator&) = delete;

  // `source`: the peer's address, without the port. All addresses of one IPv6 network of 64 bits,
  // which a provider gives to one customer, are one source. `hash`: the user's, as in the
  // configuration; empty if there is no such user or the user has no password: then the check takes
  // as long as that of a wrong password. `password` is wiped.
  //
  // `done` is called once, on the I/O thread. It is called within check() if the password is
  // remembered as right, and a second later, with kBusy, if too many checks wait. `done` may call
  // check(), but must not destroy the Authenticator.
  void check(std::string source, std::string user, std::string hash, std::string password, Done done);

  // The hashes of all users; call again when they change. The check of an unknown name uses one of
  // them, always the same for the same name, so that its duration does not reveal which names
  // exist. Without any, it uses a hash of the default cost.
  void set_hashes(std::vector<std::string> hashes);

  // Checks that were refused; for metrics.
  std::uint64_t failures() const;

 private:
  class Impl;
  const std::shared_ptr<Impl> impl_;  // the thread's posts hold it weakly: this is the last owner
};

}  // namespace locksley::daemon

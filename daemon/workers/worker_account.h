// How much the workers of one user hold of the resources that all users share.
#pragma once

#include <cstdint>

namespace locksley::daemon {

// What leases take beside their payloads: of all users, and of one.
struct LeaseUse {
  std::uint64_t shown = 0;   // jobs that they show (OutLease::shown)
  std::uint64_t splits = 0;  // in how many more ranges than one their jobs lie
};

// The workers of one user together. Owned by the link, while one of them has joined, or bytes are
// charged. One thread.
struct WorkerAccount {
  WorkerAccount(std::uint64_t its_number, LeaseUse& of_all_users)
      : number(its_number), of_all(of_all_users) {}

  // Its leases show more or fewer jobs than before.
  void count_shown(std::uint64_t change) {
    leases.shown += change;
    of_all.shown += change;
  }
  // The jobs of its leases lie in more or fewer ranges.
  void count_splits(std::uint64_t change) {
    leases.splits += change;
    of_all.splits += change;
  }

  const std::uint64_t number;  // never used again
  std::uint64_t workers = 0;
  std::uint64_t slots = 0;
  std::uint64_t name_bytes = 0;    // RemoteWorker::name_bytes
  std::uint64_t leased_bytes = 0;  // payloads of leases, and of those that are over but are still unsent
  LeaseUse leases;
  LeaseUse& of_all;
};

// How much more a user may take that holds `own`, if all users together hold `all` of `most`.
// Afterwards the user holds no more than is still free. So the first user gets half of `most`, and
// the second one half of the rest: the next user always finds room, however many others hold all
// that they may. (Account::Kind::kLeavesRoom in daemon/server/accounts/account.h is the same rule,
// with its source.)
constexpr std::uint64_t room_beside_others(std::uint64_t own, std::uint64_t all, std::uint64_t most) {
  const std::uint64_t free = most > all ? most - all : 0;
  return free > own ? (free - own) / 2 : 0;
}

}  // namespace locksley::daemon

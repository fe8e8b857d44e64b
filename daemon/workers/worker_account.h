// How much the workers of one user hold of the resources that all users share.
#pragma once

#include <cstdint>

namespace locksley::daemon {

// The workers of one user together. Owned by the link, while one of them has joined. One thread.
struct WorkerAccount {
  WorkerAccount(std::uint64_t its_number, std::uint64_t& shown_now)
      : number(its_number), shown_of_all(shown_now) {}

  // Its leases show more or fewer jobs than before.
  void count_shown(std::uint64_t change) {
    shown += change;
    shown_of_all += change;
  }

  const std::uint64_t number;  // never used again
  std::uint64_t workers = 0;
  std::uint64_t slots = 0;
  std::uint64_t leased_bytes = 0;  // payloads of leases, and of lost ones that still wait to be read
  std::uint64_t shown = 0;         // jobs that its leases show (OutLease::shown)
  std::uint64_t& shown_of_all;     // by the leases of all users
};

// How much more a user may take that holds `own`, if all users together hold `all` of `most`. Afterwards the user holds
// no more than is still free. So the first user gets half of `most`, and the second one half of the rest: the next user
// always finds room, however many others hold all that they may. (Account::Kind::kLeavesRoom in
// daemon/server/accounts/account.h is the same rule, with its source.)
constexpr std::uint64_t room_beside_others(std::uint64_t own, std::uint64_t all, std::uint64_t most) {
  const std::uint64_t free = most > all ? most - all : 0;
  return free > own ? (free - own) / 2 : 0;
}

}  // namespace locksley::daemon

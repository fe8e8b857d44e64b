// What the workers of one user hold of what all users share.
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

// How much more a user may take that holds `own`, where all users together hold `all` of `most`: at the end it holds no
// more than is free then. A user alone comes to half of `most`, the second one to half of what the first one has left.
// So, however many users take all that they can get, the next one finds room. (The rule, and who found it, are at
// Account::Kind::kLeavesRoom in daemon/server/accounts/account.h.)
constexpr std::uint64_t room_beside_others(std::uint64_t own, std::uint64_t all, std::uint64_t most) {
  const std::uint64_t free = most > all ? most - all : 0;
  return free > own ? (free - own) / 2 : 0;
}

}  // namespace locksley::daemon

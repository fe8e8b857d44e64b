// How much of the shared limits the workers of each user hold, and how much more they may take.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace locksley::daemon {

// What the workers of one user hold, or those of all users.
struct WorkerUse {
  std::uint64_t workers = 0;
  std::uint64_t slots = 0;
  std::uint64_t name_bytes = 0;    // RemoteWorker::name_bytes
  std::uint64_t leased_bytes = 0;  // payloads of leases, and unsent payloads of leases that are over
  std::uint64_t shown = 0;         // jobs that leases show (OutLease::shown)
  std::uint64_t splits = 0;        // in how many more ranges than one the jobs of leases lie
};

// The workers of one user together. Owned by WorkerAccounts, while a worker of the user has joined,
// or bytes are charged. One thread.
class WorkerAccount {
 public:
  WorkerAccount(std::uint64_t number, WorkerUse& of_all) : number_(number), of_all_(of_all) {}

  // The number of the account, which is never used again.
  std::uint64_t number() const { return number_; }
  const WorkerUse& use() const { return use_; }
  // Adds `change` to the charge. A negative change is passed modulo 2^64.
  void charge(std::uint64_t WorkerUse::* what, std::uint64_t change) {
    use_.*what += change;
    of_all_.*what += change;
  }

 private:
  const std::uint64_t number_;
  WorkerUse use_;
  WorkerUse& of_all_;
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

// The accounts of all users that have workers. It also keeps the charge for payloads of leases that
// are over, until their connection has sent them or is gone.
//
// A member of the link; one thread. O(log n). Only allocation fails.
class WorkerAccounts {
 public:
  using Id = std::uint64_t;  // of a connection

  // `most`: how much all users together may hold.
  explicit WorkerAccounts(const WorkerUse& most) : most_(most) {}
  WorkerAccounts(const WorkerAccounts&) = delete;
  WorkerAccounts& operator=(const WorkerAccounts&) = delete;

  // Makes the account if the user has none. Valid until forget_if_empty().
  WorkerAccount& of(const std::string& user);
  // What the user holds: nothing, if it has no account.
  WorkerUse use_of(const std::string& user) const;
  const WorkerUse& of_all() const { return of_all_; }
  // The user may have lost its last worker.
  void forget_if_empty(const std::string& user);

  // How much more a user may take that holds `own`: room_beside_others().
  std::uint64_t room(std::uint64_t WorkerUse::* what, const WorkerUse& own) const {
    return room_beside_others(own.*what, of_all_.*what, most_.*what);
  }
  // About how many bytes of payloads the next lease of the user may have; 0: it gets none. A user
  // that holds none gets one job in any case: payloads that are large beside the limit may have
  // left no room.
  std::uint64_t room_for_lease(const WorkerAccount& account) const;

  // ---- Payloads that are unsent ----

  // A lease of the user ends, and its payloads, `bytes`, are in the replies of the connection that
  // end at its byte `end`; the connection has sent `sent` bytes. They stay charged.
  void keep_unsent(Id connection, const std::string& user, std::uint64_t bytes, std::uint64_t end,
                   std::uint64_t sent);
  // The connection has sent so many bytes in total. True: the charge for it has fallen.
  bool has_sent(Id connection, std::uint64_t sent);
  // The connection is gone, and its unsent payloads are no longer in memory.
  void drop_unsent(Id connection) { (void)has_sent(connection, ~std::uint64_t{0}); }
  std::uint64_t unsent_bytes(Id connection) const;

 private:
  using Accounts = std::map<std::string, WorkerAccount>;
  struct Unsent {
    Accounts::iterator account;  // of the user that had the last of these leases
    std::uint64_t bytes = 0;     // charged to it
    std::uint64_t end = 0;       // of the last of these replies
  };
  void forget_if_empty(Accounts::iterator account);

  const WorkerUse most_;
  WorkerUse of_all_;
  Accounts accounts_;            // by user
  std::map<Id, Unsent> unsent_;  // of the connections that have such bytes
  std::uint64_t last_ = 0;       // number of an account
};

}  // namespace locksley::daemon

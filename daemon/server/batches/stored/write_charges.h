// The cost of each user's pending writes, which wait for the store's writer.
#pragma once

#include <cstdint>
#include <deque>

#include "daemon/base/loop/io_thread.h"
#include "daemon/server/accounts/account.h"
#include "daemon/store/write/group_commit.h"
#include "daemon/store/write/ticket.h"

namespace locksley::daemon {

// A write waits for nearly all writes before it (StagedWrites has the exception). So that no user
// makes others wait for long, a connection executes no command that writes while its user has as
// much pending as a slow disk writes in a tenth of a second: has_room_to_write(). So each other
// user has at most that much, and one more command, before a write. The user is the sender of the
// command, which may be an admin that changes another user's batch. What the daemon writes by
// itself is charged to the owner of the batch.
//
// Owned by Batches. The I/O thread only. Nothing blocks or fails. The accounts outlive it.
class WriteCharges {
 public:
  // Counted as by cost_of(). Guess: a tenth of a second of a disk that writes 80 MB/s. Two groups
  // of the store: one gathers while the other is written.
  static constexpr std::uint64_t kMostPending = 2 * kMostInGroup;
  // The same while other users have writes pending, too: these wait for half as long. Measured:
  // beside a pipeline of 5,000 small SUBMITs, another user's SUBMITs took 4.2 and 4.7 ms in place
  // of 7.4 and 8.8, and the pipeline was a tenth slower. With half of this room, large batches of
  // two users were a sixth slower.
  static constexpr std::uint64_t kMostBesideOthers = kMostInGroup / 2;

  WriteCharges() = default;
  WriteCharges(const WriteCharges&) = delete;
  WriteCharges& operator=(const WriteCharges&) = delete;

  // A write was put into the store, which will report its outcome (Urgency::kAwaited). `account`:
  // that of the user who waits for room, as above. `ticket`: that of the write; 0: there is no
  // store. `cost`: by cost_of(). O(1), but for large writes.
  void charge(Account& account, Ticket ticket, std::uint64_t cost) LOCKSLEY_REQUIRES(kIoThread);
  // The writes up to this ticket have had their outcome: refunds their charges. O(1) for each.
  void refund(Ticket up_to) LOCKSLEY_REQUIRES(kIoThread);

 private:
  // The writes of one user that were put one after another into one group.
  struct Charge {
    Ticket ticket;
    Account* account;
    std::uint64_t cost;
  };
  std::deque<Charge> charges_ LOCKSLEY_GUARDED_BY(kIoThread);  // in the order of the tickets
};

// Whether the account of a user has less pending than it may have. O(1).
inline bool has_room_to_write(const Account& account) {
  const std::uint64_t pending = account.used(Resource::kWriteBytes);
  if (pending < WriteCharges::kMostBesideOthers) return true;
  const Account* const all = account.parent();
  const bool is_alone = all == nullptr || all->used(Resource::kWriteBytes) == pending;
  return is_alone && pending < WriteCharges::kMostPending;
}

}  // namespace locksley::daemon

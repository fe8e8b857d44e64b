// The start conditions of batches, and the batches that wait for others.
#pragma once

#include <chrono>
#include <cstdint>
#include <expected>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "daemon/base/loop/io_thread.h"
#include "daemon/base/loop/slices.h"
#include "daemon/base/time.h"
#include "daemon/server/accounts/users.h"
#include "daemon/server/records/batch_record.h"
#include "daemon/server/records/registry.h"
#include "proto/submit_options.h"

namespace locksley::daemon {

class BatchChanges;
class StoredBatches;
struct AcceptedRow;
struct ChangesRow;

// The start condition of a batch: it starts at once, after a delay (DELAY), or after other batches
// (AFTER, AFTEROK).
struct StartCondition {
  std::optional<std::chrono::milliseconds> delay;
  BatchRecord::Waits waits;
  std::string broken;  // not empty: the batch can never start, for this reason, and is to be cancelled

  bool is_immediate() const { return !delay && waits.all.empty(); }
};

// The batches that AFTER and AFTEROK name, in the order of the command, as far as they have been
// looked up. If a command names many, they are looked up in parts, and other commands are executed
// in between. If a batch was over when it was looked up, its outcome at that moment counts, even if
// it was forgotten or retried since. Otherwise its state counts at the moment in which the new
// batch is accepted.
struct FoundDependencies {
  struct Found {
    std::uint64_t sequence = 0;
    std::shared_ptr<BatchRecord> unfinished = nullptr;  // null: it was over
    bool is_all_ok = false;                             // if it was over: done, and all its jobs were ok
  };
  std::vector<Found> all;
  // Not empty: the text of the error reply; a batch is unknown, or cannot be read. No further one
  // is looked up.
  std::string error;
};

// The start conditions of batches: which batch waits for which. A condition is resolved when its
// batch is accepted or restored. It is satisfied or broken when the batches that it names end.
//
// An id is resolved once, when it is looked up, to the sequence number of the batch that has it
// then. So a batch waits only for older ones, there are no cycles, and a later batch with the same
// id does not count.
//
// When a batch ends for which very many batches wait, these are notified in slices. Until the last
// one is notified, the ended batch must not be forgotten: after a crash, nothing would be known of
// its outcome.
//
// Owned by Batches. The I/O thread only. O(log n) for each wait. look_up_next() and resolve() may
// read the disk to find a batch that is over; nothing else blocks.
class Dependencies {
 public:
  Dependencies(Registry& registry, StoredBatches& stored, BatchChanges& changes, Slices& slices)
      : registry_(registry), stored_(stored), changes_(changes), slices_(slices) {}
  Dependencies(const Dependencies&) = delete;
  Dependencies& operator=(const Dependencies&) = delete;

  // Looks up the next batch that the options name. Changes nothing but `found`. False: none is
  // left, or there was an error.
  bool look_up_next(const User& by, const proto::BatchOptions& options, FoundDependencies& found)
      LOCKSLEY_REQUIRES(kIoThread);
  // Changes nothing. `found`: what was looked up before; null: nothing. Looks up the other batches
  // now. The error is the text of the error reply.
  std::expected<StartCondition, std::string> resolve(const User& by, const proto::BatchOptions& options,
                                                     const FoundDependencies* found)
      LOCKSLEY_REQUIRES(kIoThread);
  // The same for a batch from the store, without its delay. Also decides about dependencies that
  // can no longer be found.
  StartCondition resolve_restored(const AcceptedRow& row, bool is_cancelled, const ChangesRow& changes)
      LOCKSLEY_REQUIRES(kIoThread);

  // Holds the batch until its condition is met. Call it before the batch is in its lane.
  // `start_at`: when its delay ends. A broken condition holds it, too: the caller cancels it.
  void hold(BatchRecord& record, StartCondition condition, Instant start_at) LOCKSLEY_REQUIRES(kIoThread);

  // The batch is over: starts or cancels the batches that waited for it, the first of them within
  // this call. If the store has refused it, all are cancelled: it never ran, and its client may
  // submit it again. If one of them ends by that, its end is separate news, so there is no
  // recursion.
  void batch_ended(BatchRecord& record, const BatchStatus& status) LOCKSLEY_REQUIRES(kIoThread);
  // `told` is called after the last of very many dependents of a batch has been notified: from then
  // on is_notifying() is false.
  void on_all_told(std::function<void(std::uint64_t sequence)> told) LOCKSLEY_REQUIRES(kIoThread) {
    on_all_told_ = std::move(told);
  }
  // Whether some batches that waited for this one have not been notified of its end yet.
  bool is_notifying(std::uint64_t sequence) const LOCKSLEY_REQUIRES(kIoThread);

 private:
  // A batch that is over, how it ended, and the batches that are not notified yet.
  struct Ended {
    std::uint64_t sequence;
    std::string id;
    bool is_all_ok;
    bool is_rejected;  // the store has refused it
    std::set<std::uint64_t> dependents;
  };
  std::expected<FoundDependencies::Found, std::string> look_up(const User& by, const proto::AfterBatch& after)
      LOCKSLEY_REQUIRES(kIoThread);
  // Notifies some until about `until`. True if none is left.
  bool notify(Ended& ended, Instant until) LOCKSLEY_REQUIRES(kIoThread);
  void notify(const Ended& ended, BatchRecord& dependent) LOCKSLEY_REQUIRES(kIoThread);
  void remove(std::uint64_t dependency, std::uint64_t dependent) LOCKSLEY_REQUIRES(kIoThread);

  Registry& registry_;
  StoredBatches& stored_;
  BatchChanges& changes_;
  Slices& slices_;
  // By sequence; each has an entry in slices_. A batch that has ended, gone on and ended again has
  // one for each end whose dependents are not all notified.
  std::multimap<std::uint64_t, Ended> notifying_ LOCKSLEY_GUARDED_BY(kIoThread);
  std::function<void(std::uint64_t)> on_all_told_ LOCKSLEY_GUARDED_BY(kIoThread);
  // By sequence; only pairs of batches that are both not over.
  std::map<std::uint64_t, std::set<std::uint64_t>> dependents_of_ LOCKSLEY_GUARDED_BY(kIoThread);
};

}  // namespace locksley::daemon

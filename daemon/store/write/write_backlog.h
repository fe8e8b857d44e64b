// The backlog: writes that failed and are kept until the disk takes them, and the deletions that
// are written to a full disk meanwhile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "core/base/job.h"
#include "daemon/base/log/rate_gate.h"
#include "daemon/store/engine/engine.h"
#include "daemon/store/engine/writer_thread.h"
#include "daemon/store/write/pending_writes.h"
#include "daemon/store/write/ticket.h"
#include "daemon/store/write/writes.h"

namespace spdlog {
class logger;
}

namespace locksley::daemon {

class StepCompactor;

// The policy for a disk that fails or is full.
//
// A group that could not be written is kept, except writes that bring jobs: these are refused, and
// their clients are told. The backlog is written, and synced, in attempts: the first 1 s after the
// failure, later ones after pauses of up to 5 s. Each attempt first reopens the engine, which makes
// sure that everything acknowledged before is on the disk (Engine::reopen). Then the backlog is
// written in parts, in its order, each as large as a group of the engine should be
// (Engine::group_bytes) and committed by itself: a part that is in the database is not written
// again, even if the next one fails. A crash between two parts is like one between two groups.
//
// On a disk that has no room (Engine::check_room), writes that bring jobs are refused before
// anything is written. If there is no room for the rest either, the disk is full (is_full()): the
// database is in order and need not be reopened, and deletions of batches, which make room, are
// written without waiting for an attempt.
//
// A member of GroupCommit; the engine and the compactor outlive it. The writer's thread only. Calls
// block on the disk.
class WriteBacklog {
 public:
  using Writes = PendingWrites::Writes;

  // `failed_ranges`: as in WriteGroup.
  WriteBacklog(Engine& engine, StepCompactor& compactor, std::uint64_t failed_ranges,
               std::shared_ptr<spdlog::logger> log);

  // ---- A group that is about to be written ----

  // Whether writes were taken out of a group, and why.
  struct Refusal {
    std::string why;        // empty: all of the group may be written
    bool has_jobs = false;  // writes that bring jobs were taken out
  };
  // Takes out the writes that bring jobs if there is no room for them, or if some of their jobs
  // follow refused jobs of the same batch whose refusal was not known when they were put
  // (AddJobs::settled): their indexes are too high. Changes that follow such jobs of their batch no
  // longer count them, and leave the batch open. The acceptance of a batch that was to start after
  // a refused batch is changed to require the success of the refused one: so the batch does not run
  // if the daemon crashes before it has cancelled the batch. If there is no room for the rest
  // either, the disk is_full(), and the group must not be written. `ticket`: the group's.
  Refusal refuse_without_room(Writes& writes, Ticket ticket) LOCKSLEY_REQUIRES(kStoreWriter);
  // Whether the disk was full at the last check, and there was no other error.
  bool is_full() const LOCKSLEY_REQUIRES(kStoreWriter) { return is_full_; }

  // ---- A group that was not written ----

  // On a full disk: writes the deletions and discards among `writes`, which make room, and takes
  // them out. Drops all other writes of deleted batches, and returns the weight (weight_of()) of
  // the dropped writes. With deletions, the outcomes of the deleted batches are also written for
  // the batches that waited for them (tells_of_ends()), because the changes of those batches stay
  // kept, and may be written only much later.
  std::size_t write_deletions(Writes& writes) LOCKSLEY_REQUIRES(kStoreWriter);
  // Records that those of `writes` that bring jobs are refused; corrects those that were put before
  // earlier refusals were known. Takes none out. `ticket`: the group's. See refuse_without_room().
  void note_refused(Writes& writes, Ticket ticket) LOCKSLEY_REQUIRES(kStoreWriter);
  // Adds `writes` to the backlog, except writes that bring jobs, which it takes out as
  // refuse_without_room() does.
  void keep(Writes writes) LOCKSLEY_REQUIRES(kStoreWriter);

  // ---- The backlog ----

  bool empty() const LOCKSLEY_REQUIRES(kStoreWriter) { return kept_.empty(); }
  std::size_t size() const LOCKSLEY_REQUIRES(kStoreWriter) { return kept_.size(); }
  // Whether the backlog has deletions of batches.
  bool keeps_deletions() const LOCKSLEY_REQUIRES(kStoreWriter) { return kept_deletions_ != 0; }

  // Called when the disk has just failed: the next attempt comes after a pause.
  void begin_pause() LOCKSLEY_REQUIRES(kStoreWriter);
  Nanoseconds next_attempt() const LOCKSLEY_REQUIRES(kStoreWriter) { return next_attempt_; }
  // The length of the pause before the next attempt.
  Nanoseconds pause() const LOCKSLEY_REQUIRES(kStoreWriter) { return pause_; }
  // Attempts to write the first part of the backlog. Returns the written part; then the next
  // attempt is due at once, unless the backlog is empty(). After an error a longer pause begins.
  // `dropped`: set to the result of write_deletions() if the disk has room for deletions only.
  std::expected<Writes, EngineError> write_kept(std::size_t& dropped) LOCKSLEY_REQUIRES(kStoreWriter);
  // At the end, on a full disk: writes the backlog into the room that was left free for deletions,
  // because none will come any more. empty() then says whether all was written.
  void write_with_reserve() LOCKSLEY_REQUIRES(kStoreWriter);

 private:
  // Removes the writes of these batches from `writes` and from the backlog. Returns their weight
  // (weight_of()).
  std::size_t drop(const std::unordered_set<std::uint64_t>& batches, Writes& writes)
      LOCKSLEY_REQUIRES(kStoreWriter);
  // For the batches of never_written_ that `writes` deletes: drops all writes about them, such as
  // their last steps, because nothing would delete the rows of these. Returns as drop().
  std::size_t drop_never_written(Writes& writes) LOCKSLEY_REQUIRES(kStoreWriter);
  // Corrects writes that were put before a refusal was known. Returns whether they add jobs that
  // follow refused jobs of the same batch.
  bool correct(Writes& writes) LOCKSLEY_REQUIRES(kStoreWriter);
  // Whether the disk has room for these writes; sets is_full_.
  EngineDone check_room(const Writes& writes) LOCKSLEY_REQUIRES(kStoreWriter);
  // Frees the space of deleted batches before the next check for room.
  EngineDone reclaim() LOCKSLEY_REQUIRES(kStoreWriter);
  // Adds to `told` those parts of `writes`, which are kept or will be, that report the ends of
  // other batches. `others`: batches whose changes are left out, because the batches are deleted,
  // or the changes are written anyway.
  void tell_of_ends(std::span<const StoreWrite> writes, const std::unordered_set<std::uint64_t>& others,
                    Writes& told) const LOCKSLEY_REQUIRES(kStoreWriter);
  // If the first `count` kept writes delete batches: returns those parts of the later ones that
  // report the ends of batches. A change that was put before a deletion may stand after it, because
  // it stands at the place of the last change that replaced it.
  Writes ends_before_deletions(std::size_t count) const LOCKSLEY_REQUIRES(kStoreWriter);
  // The number of writes in the first part of the backlog.
  std::size_t first_part() const LOCKSLEY_REQUIRES(kStoreWriter);
  // Does the work of write_kept() on the disk; write_kept() itself plans the next attempt.
  std::expected<Writes, EngineError> try_to_write_kept(std::size_t& dropped) LOCKSLEY_REQUIRES(kStoreWriter);
  // The batches whose discards among `writes` may be written before the kept writes, because no
  // other write, kept or among `writes`, is about these batches.
  std::unordered_set<std::uint64_t> batches_with_discards_only(const Writes& writes) const
      LOCKSLEY_REQUIRES(kStoreWriter);

  // Constant.
  Engine& engine_;
  StepCompactor& step_compactor_;
  const std::uint64_t failed_ranges_;
  const std::shared_ptr<spdlog::logger> log_;

  Writes take_kept() LOCKSLEY_REQUIRES(kStoreWriter);

  // Only take_kept() and try_to_write_kept() take writes out.
  PendingWrites kept_ LOCKSLEY_GUARDED_BY(kStoreWriter){PendingWrites::Written::kInParts};
  // The last attempt has written a part, and more parts follow.
  bool has_begun_ LOCKSLEY_GUARDED_BY(kStoreWriter) = false;
  std::size_t kept_deletions_ LOCKSLEY_GUARDED_BY(kStoreWriter) = 0;
  bool is_full_ LOCKSLEY_GUARDED_BY(kStoreWriter) = false;
  // The refused jobs of a batch, until jobs come that were added after the refusal was known, or
  // the batch is deleted. Writes of other batches do not prove that no more jobs with too high
  // indexes come: some may be staged.
  struct Refused {
    Ticket group = 0;             // of the last refusal
    bool is_acceptance = false;   // the batch itself was refused
    std::uint64_t first = kNone;  // index of the first job that was to be added
    std::uint64_t bytes = 0;      // of their payloads
    static constexpr std::uint64_t kNone = ~std::uint64_t{0};
  };
  std::unordered_map<std::uint64_t, Refused> refused_ LOCKSLEY_GUARDED_BY(kStoreWriter);
  // Batches whose acceptance was refused on a full disk, until their deletions come, or a part of
  // the backlog is written: no row of them is in the database.
  std::unordered_set<std::uint64_t> never_written_ LOCKSLEY_GUARDED_BY(kStoreWriter);
  // The numbers of the batches that were deleted, or had results discarded, on the full disk, and
  // take room until the next attempt: [first, last].
  std::uint64_t deleted_first_ LOCKSLEY_GUARDED_BY(kStoreWriter) = ~std::uint64_t{0};
  std::uint64_t deleted_last_ LOCKSLEY_GUARDED_BY(kStoreWriter) = 0;
  Nanoseconds next_attempt_ LOCKSLEY_GUARDED_BY(kStoreWriter){};
  Nanoseconds pause_ LOCKSLEY_GUARDED_BY(kStoreWriter);
  RateGate refusals_ LOCKSLEY_GUARDED_BY(kStoreWriter){std::chrono::minutes(1)};  // their lines in the log
  RateGate reclaim_all_ LOCKSLEY_GUARDED_BY(kStoreWriter){std::chrono::minutes(1)};
};

}  // namespace locksley::daemon

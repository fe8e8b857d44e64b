// The backlog: writes that the disk refused and that are kept until it takes them, and the
// deletions that a full disk takes meanwhile.
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
// failure, later ones after up to 5 s. Each attempt first reopens the engine, which makes sure that
// everything acknowledged before is on the disk (Engine::reopen). Then the backlog is written in
// parts, in its order, each as large as a group of the engine should be (Engine::group_bytes) and
// committed by itself: a part that is in the database is not written again, even if the next one
// fails. A crash between two parts is like one between two groups.
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

  // `failed_ranges`: as WriteGroup has it.
  WriteBacklog(Engine& engine, StepCompactor& compactor, std::uint64_t failed_ranges,
               std::shared_ptr<spdlog::logger> log);

  // ---- A group that is about to be written ----

  // The writes that were taken out of a group for lack of room.
  struct Refusal {
    std::string why;        // empty: all of the group may be written
    bool has_jobs = false;  // writes that bring jobs were taken out
  };
  // Takes out the writes that bring jobs if there is no room for them, or if their jobs follow
  // refused ones of their batch, which was not known when they were put (AddJobs::settled): their
  // indexes are too high. Changes that follow such jobs of their batch no longer count them, and
  // leave the batch open. A batch that was to start after a refused one is changed to require its
  // success: so it does not run if the daemon crashes before it has cancelled it. If there is no
  // room for the rest either, the disk is_full(), and the group must not be written. `ticket`: the
  // group's.
  Refusal refuse_without_room(Writes& writes, Ticket ticket) LOCKSLEY_REQUIRES(kStoreWriter);
  // At the last check: the disk is full, and there is no other error.
  bool is_full() const LOCKSLEY_REQUIRES(kStoreWriter) { return is_full_; }

  // ---- A group that was not written ----

  // On a full disk: writes those of `writes` that make room, and takes them out. Drops the kept
  // writes of deleted batches, and returns their weight (weight_of()). With deletions, the outcomes
  // of the deleted batches are written for those that waited for them (tells_of_ends()), because
  // their own changes stay kept, and may be written only much later.
  std::size_t write_deletions(Writes& writes) LOCKSLEY_REQUIRES(kStoreWriter);
  // Refuses those of `writes` that bring jobs; corrects those that were put before earlier refusals
  // were known. `ticket`: the group's. See refuse_without_room().
  void note_refused(Writes& writes, Ticket ticket) LOCKSLEY_REQUIRES(kStoreWriter);
  // Keeps the rest, except writes that bring jobs, which it takes out as refuse_without_room()
  // does.
  void keep(Writes writes) LOCKSLEY_REQUIRES(kStoreWriter);

  // ---- What is kept ----

  bool empty() const LOCKSLEY_REQUIRES(kStoreWriter) { return kept_.empty(); }
  std::size_t size() const LOCKSLEY_REQUIRES(kStoreWriter) { return kept_.size(); }
  // Whether the backlog has deletions of batches.
  bool keeps_deletions() const LOCKSLEY_REQUIRES(kStoreWriter) { return kept_deletions_ != 0; }

  // The disk has just failed: the next attempt comes after a pause.
  void begin_pause() LOCKSLEY_REQUIRES(kStoreWriter);
  Nanoseconds next_attempt() const LOCKSLEY_REQUIRES(kStoreWriter) { return next_attempt_; }
  // The length of the pause before it.
  Nanoseconds pause() const LOCKSLEY_REQUIRES(kStoreWriter) { return pause_; }
  // An attempt to write the first part of the backlog. Returns the written part; then the next
  // attempt is due at once, unless empty(). After an error a longer pause begins. `dropped`: as
  // write_deletions() returns it, if only deletions could be written.
  std::expected<Writes, EngineError> write_kept(std::size_t& dropped) LOCKSLEY_REQUIRES(kStoreWriter);
  // On a full disk, at the end, when no deletion will need the room that is left free. empty() says
  // whether all was written.
  void write_with_reserve() LOCKSLEY_REQUIRES(kStoreWriter);

 private:
  // Removes the writes of these batches from `writes` and from the backlog. Returns their weight
  // (weight_of()).
  std::size_t drop(const std::unordered_set<std::uint64_t>& batches, Writes& writes)
      LOCKSLEY_REQUIRES(kStoreWriter);
  // No row of a batch that was refused for its size was written. With its deletion all other writes
  // about it are dropped, such as its last step, because nothing would delete their rows. Returns
  // as drop().
  std::size_t drop_never_written(Writes& writes) LOCKSLEY_REQUIRES(kStoreWriter);
  // Corrects writes that were put before a refusal was known. Returns whether there are jobs that
  // follow refused ones of their batch.
  bool correct(Writes& writes) LOCKSLEY_REQUIRES(kStoreWriter);
  // Whether the disk has room for these writes; sets is_full_.
  EngineDone check_room(const Writes& writes) LOCKSLEY_REQUIRES(kStoreWriter);
  // Frees the space of deleted batches before the next check for room.
  EngineDone reclaim() LOCKSLEY_REQUIRES(kStoreWriter);
  // Adds to `told` those parts of `writes`, which are kept or will be, that report the ends of
  // other batches. `others`: batches whose ends are not needed.
  void tell_of_ends(std::span<const StoreWrite> writes, const std::unordered_set<std::uint64_t>& others,
                    Writes& told) const LOCKSLEY_REQUIRES(kStoreWriter);
  // Returns those parts of the kept writes that report the ends of batches which the first `count`
  // writes delete. A change stands at the place of the last one that replaced it, which may be
  // behind these deletions.
  Writes ends_before_deletions(std::size_t count) const LOCKSLEY_REQUIRES(kStoreWriter);
  // How many writes the first part has.
  std::size_t first_part() const LOCKSLEY_REQUIRES(kStoreWriter);
  // The part of write_kept() for the disk.
  std::expected<Writes, EngineError> try_to_write_kept(std::size_t& dropped) LOCKSLEY_REQUIRES(kStoreWriter);
  // The batches whose discards among `writes` may be written before the other kept writes, because
  // none of these is about them.
  std::unordered_set<std::uint64_t> batches_with_discards_only(const Writes& writes) const
      LOCKSLEY_REQUIRES(kStoreWriter);

  // Constant.
  Engine& engine_;
  StepCompactor& step_compactor_;
  const std::uint64_t failed_ranges_;
  const std::shared_ptr<spdlog::logger> log_;

  Writes take_kept() LOCKSLEY_REQUIRES(kStoreWriter);

  // Taken by take_kept() and try_to_write_kept() only.
  PendingWrites kept_ LOCKSLEY_GUARDED_BY(kStoreWriter){PendingWrites::Written::kInParts};
  // The last attempt has written a part, and the next one follows.
  bool has_begun_ LOCKSLEY_GUARDED_BY(kStoreWriter) = false;
  std::size_t kept_deletions_ LOCKSLEY_GUARDED_BY(kStoreWriter) = 0;
  bool is_full_ LOCKSLEY_GUARDED_BY(kStoreWriter) = false;
  // The refused jobs of a batch, until jobs come that were added after the refusal was known, or
  // the batch is deleted. Writes of other batches do not prove that no more of these jobs come:
  // some may be staged.
  struct Refused {
    Ticket group = 0;             // the last one
    bool is_acceptance = false;   // the batch itself was refused
    std::uint64_t first = kNone;  // of the jobs that were added
    std::uint64_t bytes = 0;      // of their payloads
    static constexpr std::uint64_t kNone = ~std::uint64_t{0};
  };
  std::unordered_map<std::uint64_t, Refused> refused_ LOCKSLEY_GUARDED_BY(kStoreWriter);
  // Batches whose acceptance was refused on a full disk, until their deletions come, or a part of
  // the backlog was written: nothing of them is in the database.
  std::unordered_set<std::uint64_t> never_written_ LOCKSLEY_GUARDED_BY(kStoreWriter);
  // Batches that were deleted on the full disk, and take room until the next attempt: [first,
  // last].
  std::uint64_t deleted_first_ LOCKSLEY_GUARDED_BY(kStoreWriter) = ~std::uint64_t{0};
  std::uint64_t deleted_last_ LOCKSLEY_GUARDED_BY(kStoreWriter) = 0;
  Nanoseconds next_attempt_ LOCKSLEY_GUARDED_BY(kStoreWriter){};
  Nanoseconds pause_ LOCKSLEY_GUARDED_BY(kStoreWriter);
  RateGate refusals_ LOCKSLEY_GUARDED_BY(kStoreWriter){std::chrono::minutes(1)};  // their lines in the log
  RateGate reclaim_all_ LOCKSLEY_GUARDED_BY(kStoreWriter){std::chrono::minutes(1)};
};

}  // namespace locksley::daemon

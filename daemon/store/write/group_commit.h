// The writer of the store: collects writes into groups, and writes and syncs each group as one.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "config/config.h"
#include "core/base/histogram.h"
#include "core/batch/batch_journal.h"
#include "core/sync/adaptive_spin.h"
#include "core/sync/mutex.h"
#include "daemon/store/engine/engine.h"
#include "daemon/store/engine/writer_thread.h"
#include "daemon/store/rows/stored_rows.h"
#include "daemon/store/write/recent_results.h"
#include "daemon/store/write/step_compactor.h"
#include "daemon/store/write/ticket.h"
#include "daemon/store/write/write_backlog.h"
#include "daemon/store/write/write_queue.h"
#include "daemon/store/write/writes.h"

namespace spdlog {
class logger;
}

namespace locksley::daemon {

// A group that costs so much (cost_of()) gets no more writes. Guess: a slow disk writes it in a
// twentieth of a second, of which the sync takes little.
inline constexpr std::size_t kMostInGroup = 4U << 20;

// How many steps, and ranges of failed jobs, the store puts into one row; the size of a group; and
// up to how many bytes of steps the writer itself merges. Smaller in tests.
struct RowSizes {
  std::uint64_t steps = StepCompactor::kSteps;
  std::uint64_t failed_ranges = kFailedRangesInRow;
  std::size_t in_group = kMostInGroup;
  std::uint64_t merged_at_once = StepCompactor::kBytesAtOnce;
};

// How long the writer waits for the next writes of clients that it has just answered. Longer in
// tests.
struct GroupPatience {
  int commits = 1;                                  // as long as so many commits like the last one take,
  Nanoseconds most = std::chrono::milliseconds(1);  // and no longer than this: a guess
};

// Group commit: while one group is being synced, new writes gather in the next group, so that all
// clients that wait at the same time share one sync. Writes for which no client waits, mainly steps
// of batches, go with the next group, at most kDelay after their put(). A group that costs
// kMostInGroup gets no more writes, and the next one gathers: so no client waits for a very long
// write, and pipelined commands are written while more of them arrive.
//
// Clients that are answered together often write again soon, one after the other. If the writer
// began the next group with the first of these writes, the others would have to wait for the group
// after that. So after a group the writer waits until there are as many awaited writes as there
// were clients, but at most as long as GroupPatience says. It does so only if there were at least
// kManyClients clients and the next group is to be synced. A write waits longer by the time of one
// commit at most.
//
// Owned by the Store; the Engine outlives it. start() and stop(): one thread. All other members:
// any thread. put() never blocks on the disk; wait_for_room() blocks, for workers; stop() waits for
// the last sync.
//
// When a write or a sync fails, the group's acceptances are refused, and its other writes are kept
// in the backlog until an attempt to write them succeeds (WriteBacklog). Until then error() says
// why. The backlog is bounded: results by wait_for_room(), changes by the number of batches, of
// which only the newest change is kept (PendingWrites), and by that of steps.
//
// While the backlog is written in parts, the writer takes one group after each part, refuses its
// jobs and keeps its other writes, so that clients are answered meanwhile. Results then have only
// as much room as while the disk works: otherwise they could come as fast as the backlog is
// written.
//
// Jobs for which the disk has no room are refused before anything is written. If there is no room
// for other writes either, the outcome is that of a failure, and only deletions of batches and of
// discarded results are written.
class GroupCommit {
 public:
  GroupCommit(Engine& engine, config::Durability durability, std::shared_ptr<spdlog::logger> log,
              RowSizes sizes = {}, GroupPatience patience = {});
  ~GroupCommit();
  GroupCommit(const GroupCommit&) = delete;
  GroupCommit& operator=(const GroupCommit&) = delete;

  // Starts the writer. It calls `on_outcome` on its thread after each group that has an awaited
  // write, and after the backlog was written.
  void start(std::function<void(Outcome)> on_outcome);

  // Adds a write to the group that gathers, or to a later one if it is large or follows a large one
  // (StagedWrites). Returns the ticket of the write's group. Does nothing after stop(). Acceptances
  // and ADDs must be awaited: their outcome is reported only then.
  Ticket put(StoreWrite&& write, Urgency urgency) LOCKSLEY_EXCLUDES(mutex_);
  // The README promises that a result is durable this long after its publication, plus a sync.
  static constexpr auto kDelay = std::chrono::milliseconds(5);

  // gathering(): the ticket of the last group that has a write, or of the group that gathers if
  // that is later. written(): the ticket of the last group that is in the database, with all groups
  // before it.
  Ticket gathering() const { return last_.load(); }
  Ticket written() const { return written_.load(); }
  // The ticket of the last group that has had a write; 0: none has. No write that was put before
  // the call has a later ticket. Unlike the group of gathering(), this group is soon written.
  Ticket last_put() const { return last_put_.load(); }
  // The ticket of the group that gathers: a write that was put before the call has a later ticket
  // only if the write is staged (StagedWrites).
  Ticket last_unstaged() const { return last_unstaged_.load(); }

  // Writes all groups and ends the thread. If the disk fails, the writes are lost, and
  // the log says so.
  void stop() LOCKSLEY_EXCLUDES(mutex_);

  // Blocks while more than kMostPending bytes of results wait for the disk: more could not be
  // written within kDelay. While the disk fails, the bound is kMostPendingWhileItFails, which only
  // keeps results from filling the memory. If no more than kFewPending of these bytes belong to the
  // caller's batch, the bound is higher by kMorePending: such a batch does not wait for the results
  // of one other batch. But no user may take much of that extra room: the batches of one user with
  // so few pending bytes have it only as long as they have at most kFewOfUser together. Returns at
  // once after stop().
  struct Pending {
    std::size_t of_batch = kMostPending;  // about so many bytes of the caller's batch wait,
    std::size_t of_user = 0;              // and of its user's batches that have at most kFewPending each
  };
  void wait_for_room(const Pending& callers) LOCKSLEY_EXCLUDES(mutex_);
  void wait_for_room() LOCKSLEY_EXCLUDES(mutex_) { wait_for_room(Pending()); }
  // Whether wait_for_room() would return at once for every batch. Never blocks.
  bool has_room_now() const LOCKSLEY_EXCLUDES(mutex_);
  static constexpr std::size_t kMostPending = 4U << 20;
  static constexpr std::size_t kMostPendingWhileItFails = 256U << 20;
  static constexpr std::size_t kFewPending = 64U << 10;   // a guess: as much as a worker publishes at once
  static constexpr std::size_t kMorePending = 12U << 20;  // a guess: some 200 batches with kFewPending
  static constexpr std::size_t kFewOfUser = 1U << 20;     // a guess: a twelfth of kMorePending
  // Results that are on the disk also stay in memory, up to so many bytes.
  static constexpr std::size_t kResultMemory = 64U << 20;
  // With at least so many clients, the writer waits for their next writes. Measured: six
  // clients gain by this, four do not (tests/bench/README.md).
  static constexpr std::size_t kManyClients = 6;

  // Frees the memory of all results that are on the disk. The writer's thread calls `done` when it
  // has freed them, but not after stop().
  void free_results(std::function<void()> done) LOCKSLEY_EXCLUDES(mutex_);

  // Why the disk cannot be written; empty: it can.
  std::string error() const LOCKSLEY_EXCLUDES(mutex_);
  // Since when error() has been set; none: it is empty.
  std::optional<Nanoseconds> failing_since() const LOCKSLEY_EXCLUDES(mutex_);

  const DurationHistogram& commit_time() const { return commit_time_; }
  // After stop(): changes and results that could not be written, and are lost.
  std::uint64_t lost() const { return lost_.load(); }
  // Whether the disk has failed to take the deletion of a batch, and has not taken it since.
  bool keeps_deletions() const { return keeps_deletions_.load(); }
  // Writes and reopenings that failed.
  std::uint64_t errors() const { return errors_.load(); }

 private:
  using Writes = PendingWrites::Writes;
  enum class Woken { kByWork, kByStop };

  // ---- The writer's loop ----

  void run() LOCKSLEY_EXCLUDES(mutex_);
  // All functions below release the mutex while they block or use the disk.
  Woken wait_for_work() LOCKSLEY_REQUIRES(kStoreWriter, mutex_);
  void sleep_until(Nanoseconds instant) LOCKSLEY_REQUIRES(kStoreWriter, mutex_);
  void free_results_now() LOCKSLEY_REQUIRES(kStoreWriter, mutex_);
  void sync_now() LOCKSLEY_REQUIRES(kStoreWriter, mutex_);
  void commit() LOCKSLEY_REQUIRES(kStoreWriter, mutex_);
  // Waits for the next writes of the clients that commit() has answered: GroupPatience.
  void await_expected() LOCKSLEY_REQUIRES(kStoreWriter, mutex_);
  // An attempt to write the backlog, or the next part of it.
  void retry() LOCKSLEY_REQUIRES(kStoreWriter, mutex_);
  // Frees results, retries and syncs, each if it is time. False: nothing was due. Also called after
  // each group: otherwise clients that write all the time would postpone this work for ever.
  bool do_what_is_due() LOCKSLEY_REQUIRES(kStoreWriter, mutex_);

  // ---- One group ----

  // The outcome of writing one group.
  struct Result {
    std::optional<std::string> failure;  // why the disk cannot be written; none: it can
    std::string refusal;                 // why the group's clients are refused; empty: they are not
    std::size_t weight = 0;              // weight_of() of all writes that no longer wait for the disk
    std::optional<StagedWrites::Written> part = std::nullopt;  // how much of it was written; none: nothing
  };
  // Writes the group, and removes from it the refused writes and those of deleted batches.
  // `failure`: why the disk cannot be written; then only deletions are written, and only if the
  // disk is full.
  Result write_group(WriteQueue::Group& group, std::optional<std::string> failure)
      LOCKSLEY_REQUIRES(kStoreWriter);
  // `part`: null: there is none. Returns how much of it was written.
  std::expected<StagedWrites::Written, EngineError> write(const Writes& writes,
                                                          const StagedWrites::Part* part)
      LOCKSLEY_REQUIRES(kStoreWriter);
  // The writes are in the database. Returns their weight.
  std::size_t note_written(const Writes& writes) LOCKSLEY_REQUIRES(kStoreWriter);
  void keep_in_memory(const Writes& written) LOCKSLEY_REQUIRES(kStoreWriter);
  // The disk cannot be written: keeps the remaining writes of the group.
  void fail(std::string error, Writes writes) LOCKSLEY_REQUIRES(kStoreWriter, mutex_);

  bool has_room(const Pending& callers) const LOCKSLEY_REQUIRES(mutex_);

  Engine& engine_;
  const config::Durability durability_;
  std::function<void(Outcome)> on_outcome_;  // constant after start()
  const std::shared_ptr<spdlog::logger> log_;

  mutable Mutex mutex_;
  CondVar wake_;  // the writer
  CondVar room_;  // wait_for_room()
  WriteQueue queue_ LOCKSLEY_GUARDED_BY(mutex_);
  std::size_t pending_bytes_ LOCKSLEY_GUARDED_BY(mutex_) = 0;
  // When the group that gathers is written even if no client waits for it.
  Nanoseconds due_ LOCKSLEY_GUARDED_BY(mutex_){};
  // The number of awaited writes for which the writer waits (await_expected()); 0: it does not
  // wait.
  std::size_t expected_ LOCKSLEY_GUARDED_BY(mutex_) = 0;
  bool sleeping_ LOCKSLEY_GUARDED_BY(mutex_) = false;
  // If sleeping_: when the writer will wake for the next due group, by itself or because a write
  // wakes it.
  Nanoseconds sleeps_until_ LOCKSLEY_GUARDED_BY(mutex_){};
  bool stopping_ LOCKSLEY_GUARDED_BY(mutex_) = false;
  std::vector<std::function<void()>> results_freed_ LOCKSLEY_GUARDED_BY(mutex_);  // of free_results()
  std::string error_ LOCKSLEY_GUARDED_BY(mutex_);
  Nanoseconds failing_since_ LOCKSLEY_GUARDED_BY(mutex_){};  // if error_ is not empty
  // The disk can be written again, and the backlog is being written, part by part.
  bool catches_up_ LOCKSLEY_GUARDED_BY(mutex_) = false;

  // Written under mutex_, read by any thread without it.
  std::atomic<Ticket> last_{1};           // of queue_: no write that was put before a read has a later ticket
  std::atomic<Ticket> last_unstaged_{1};  // of queue_, likewise
  std::atomic<Ticket> last_put_{0};       // of queue_
  // Clients wait, or there is more than one group: the writer polls it before it sleeps.
  std::atomic<bool> urgent_{false};

  const GroupPatience patience_;
  Nanoseconds last_took_ LOCKSLEY_GUARDED_BY(kStoreWriter){};  // the last commit
  // 5 ms (kDelay) after the last commit with awaited writes. Until then, steps of its batches are
  // likely to come: the writer does not sleep longer, so steps need not wake it.
  Nanoseconds expects_steps_until_ LOCKSLEY_GUARDED_BY(kStoreWriter){};
  // The memory of the writes of the last group, for those of a later group; empty.
  Writes spare_ LOCKSLEY_GUARDED_BY(kStoreWriter);
  // With durability async: when the writes since the last sync are synced.
  Nanoseconds next_sync_ LOCKSLEY_GUARDED_BY(kStoreWriter){};
  bool unsynced_ LOCKSLEY_GUARDED_BY(kStoreWriter) = false;
  StepCompactor step_compactor_ LOCKSLEY_GUARDED_BY(kStoreWriter);
  const std::uint64_t failed_ranges_;  // RowSizes
  WriteBacklog backlog_ LOCKSLEY_GUARDED_BY(kStoreWriter);
  RecentResults recent_ LOCKSLEY_GUARDED_BY(kStoreWriter);
  AdaptiveSpin spin_ LOCKSLEY_GUARDED_BY(kStoreWriter);

  // Written by the writer, read by any thread.
  std::atomic<std::uint64_t> lost_{0};  // changes and results that could not be written at the end
  std::atomic<Ticket> written_{0};      // the rows of this ticket are in the database
  std::atomic<bool> keeps_deletions_{false};
  std::atomic<std::uint64_t> errors_{0};  // a counter: readers conclude nothing from it
  DurationHistogram commit_time_;

  std::thread thread_;  // last: it uses all of the above
};

}  // namespace locksley::daemon

// The store, as the rest of the daemon uses it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "config/config.h"
#include "core/batch/batch_journal.h"
#include "core/batch/payload.h"
#include "core/sync/mutex.h"
#include "daemon/store/backups.h"
#include "daemon/store/engine/disk_space.h"
#include "daemon/store/engine/engine.h"
#include "daemon/store/read/failed_jobs.h"
#include "daemon/store/read/payload_fetcher.h"
#include "daemon/store/read/reachability.h"
#include "daemon/store/read/reader.h"
#include "daemon/store/read/stored_range.h"
#include "daemon/store/rows/rows.h"
#include "daemon/store/rows/stored_batch.h"
#include "daemon/store/write/group_commit.h"

namespace spdlog {
class logger;
}

namespace locksley::daemon {

class PendingOfUser;

// The batches, their payloads and their results on the disk. After a crash it holds everything that
// was acknowledged, and possibly writes whose acknowledgement was not sent yet.
//
// Owned by StoreParts (daemon/parts.h); outlives the pool's threads and all batches that have a
// journal or payloads from it. Order of use: open(), recover(), start(), the rest, stop().
//
// open(), recover(), start() and stop(): main's thread; they block on the disk. put(), and
// recording steps in a journal: any thread; they do not block on the disk. load(), reading payloads
// and results, and BatchJournal::wait_for_room(): any thread; they block on the disk. A write that
// fails is reported by its Outcome and by error(); GroupCommit retries by itself.
//
// Members: all that the rest of the daemon asks of the store; half of them only call the engine,
// the writer or a reader.
class Store {
 public:
  struct Options {
    std::string path;
    config::Durability durability = config::Durability::kFsync;
    OpenEngine engine;
    RowSizes rows = {};
    GroupPatience patience = {};
    PayloadFetcher::Options fetching = {};
  };

  static std::expected<std::unique_ptr<Store>, StoreRefusal> open(const Options& options,
                                                                  std::shared_ptr<spdlog::logger> log);
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // Visits all batches, in the order of their acceptance; a visit may move from the batch. The
  // error is as in open(): a row is damaged, or cannot be read.
  std::expected<void, StoreRefusal> recover(const std::function<void(StoredBatch&&)>& visit);
  // Visits the settings of customers, in the order of the names of users and customers. The error
  // is as in open().
  std::expected<void, StoreRefusal> read_customers(const std::function<void(CustomerRow)>& visit);
  // Reads a batch that has ended: some 10 us if its rows are in the page cache. If very many of its
  // jobs failed, these are left out. The error says why the batch cannot be read. Waits for the
  // reply of a server for `patience` at most. With kAny, load() may connect first, which takes many
  // seconds if the server is silent. With kOpen, load() fails at once if it would have to connect,
  // and the reader's thread connects. If no reply comes, each load() fails at once for the next
  // second, and until the server replies again. While the engine is being reopened, load() fails at
  // once.
  static constexpr std::chrono::milliseconds kLoadPatience{500};  // guess: the caller may serve all clients
  std::expected<StoredBatch, std::string> load(std::uint64_t sequence,
                                               std::chrono::milliseconds patience = kLoadPatience,
                                               ReadingConnection connection = ReadingConnection::kAny);
  // Whether load() would ask the engine now; otherwise the error with which load() would fail.
  std::expected<void, std::string> may_load() const;
  // Where the step begins that has this row among its results. Needs: the row is on the disk, and
  // was not discarded. Blocks on the disk or on the server. The error is for the client.
  std::expected<ResultLog::Place, std::string> place_of_result(std::uint64_t sequence,
                                                               std::uint64_t row) const;
  // One more than the highest number that has rows. Valid after recover().
  std::uint64_t next_sequence() const { return next_sequence_; }
  // Numbers for new batches. No daemon uses a number again, because clients and worker machines
  // also know the numbers of batches that leave no row. So the store keeps a number below which all
  // may be in use, and a start begins there. The next kNumbersAhead numbers are reserved before the
  // first of them is used, unless the disk has no room.
  struct Numbers {
    std::uint64_t first;
    std::uint64_t renew_at;  // call renew_numbers() with this number
  };
  static constexpr std::uint64_t kNumbersAhead = std::uint64_t{1}
                                                 << 30;  // guess: millions of starts stay below 2^53
  // Called between recover() and start(). If the disk has no room, or cannot be written, the
  // numbers are reserved as soon as it can be written. The error is as in open(): the row cannot be
  // read.
  std::expected<Numbers, StoreRefusal> begin_numbers();
  // Called after start(), from any thread. Returns the number with which to call it again. Does not
  // block: half of the numbers are still reserved.
  std::uint64_t renew_numbers(std::uint64_t next);

  // Called before payloads are fetched. `on_arrival`: called by a thread of the store, with the
  // number of a batch whose payloads came so slowly that a fetch has returned 0, once they are
  // there (PayloadFetcher).
  void on_arrival(std::function<void(std::uint64_t sequence)> on_arrival) {
    if (fetcher_ != nullptr) fetcher_->on_arrival(std::move(on_arrival));
  }
  // Starts the threads that read, and the writer's, which calls `on_outcome` in the order of the
  // tickets. Throws std::system_error.
  void start(std::function<void(Outcome)> on_outcome);
  // Writes all that was put, and ends the threads. Steps recorded later are lost: their jobs will
  // run again.
  void stop();
  // After stop(): how many changes and results could not be written.
  std::uint64_t lost() const { return group_->lost(); }

  // ---- After start(): writing ----

  Ticket put(StoreWrite&& write, Urgency urgency) { return group_->put(std::move(write), urgency); }
  // Puts an empty write, for which a client waits: its outcome comes once all results that were put
  // before are written.
  Ticket put_marker() { return group_->put(std::monostate(), Urgency::kAwaited); }
  // A ticket that is not below that of any write put before.
  Ticket gathering() const { return group_->gathering(); }
  // The same, but if the group that gathers has no write yet, the ticket of the group before: so
  // that group is soon written, even if nothing more is put.
  Ticket last_put() const { return group_->last_put(); }
  // As gathering(), for all writes except large ones, and those that follow large ones
  // (StagedWrites).
  Ticket last_unstaged() const { return group_->last_unstaged(); }
  // Whether all writes up to this ticket are on the disk, or with the operating system, as
  // store.durability demands. Jobs that were refused for lack of room count as written; writes that
  // are kept because the disk failed do not.
  bool is_written(Ticket ticket) const { return ticket <= written(); }
  // Whether the disk has the deletions of batches up to this ticket, which have their outcome. On a
  // full disk it may have them before is_written() is true.
  bool has_deletions(Ticket ticket) const { return is_written(ticket) || !group_->keeps_deletions(); }
  // The highest ticket for which is_written() is true.
  Ticket written() const { return group_->written(); }
  // Why the disk cannot be written; empty: it can. While it cannot, no batch may be accepted.
  std::string error() const { return group_->error(); }
  // Since when the disk cannot be written; none: it can.
  std::optional<Nanoseconds> failing_since() const { return group_->failing_since(); }
  // [any thread] Whether results wait for the disk only in such numbers as it can soon write.
  bool has_room() const { return group_->has_room_now(); }
  // [any thread] Frees the memory of all results that are on the disk, and then calls `done`, on a
  // thread of the store; but not after stop().
  void free_results(std::function<void()> done) { group_->free_results(std::move(done)); }

  // ---- One batch ----

  // `user`: whose batch it is. The users share the room for results that wait for the disk.
  // kNoUser: the batch has a user for itself.
  std::unique_ptr<BatchJournal> journal(std::uint64_t sequence, PayloadParts parts = PayloadParts::kUnknown,
                                        Reader::User user = Reader::kNoUser) LOCKSLEY_EXCLUDES(users_mutex_);
  // Which thread fetches payloads: one that runs jobs and must not wait for a server, or that of
  // read(), which may wait, and tries once.
  enum class Fetched : std::uint8_t { kByExecutors, kByReader };
  // The payloads of the batch in the store, for executors. `user`: whose batch it is, for
  // executors; users whose payloads come slowly are served round robin. `inside`:
  // StoredBatch::payloads_inside, which need not be read then.
  std::unique_ptr<PayloadSource> payloads(std::uint64_t sequence, Reader::User user = Reader::kNoUser,
                                          std::string inside = {});
  std::unique_ptr<PayloadSource> payloads_for_reader(std::uint64_t sequence);
  // The payloads of a range from `low` on, whose pattern lies in a row of payloads: read when a
  // payload is wanted.
  std::unique_ptr<StoredRange> range_payloads(std::uint64_t sequence, std::int64_t low,
                                              Reader::User user = Reader::kNoUser,
                                              Fetched fetched = Fetched::kByExecutors);

  // ---- Reads by threads of the store, for callers that must not wait for the disk ----

  // Runs the task on a thread of the store, where it may block on the disk. After stop() the task
  // is destroyed, not run. One task of a user runs at a time, so one thread reads for each user.
  void read(Reader::Task task, Reader::User user = Reader::kNoUser,
            Reader::Place place = Reader::Place::kLast) {
    reader_->post(std::move(task), user, place);
  }
  // The same for a task that calls load(), which takes half a second at most: no long reading of
  // any user is before it.
  void read_short(Reader::Task task, Reader::User user = Reader::kNoUser) {
    (short_reader_ != nullptr ? *short_reader_ : *reader_).post(std::move(task), user);
  }
  // Which jobs of a batch have failed, if load() leaves them out (BatchHistory::failed_unread). The
  // reader's thread calls `on_read`, unless stop() comes first; the error is for the client.
  using OnFailedJobs = std::move_only_function<void(std::expected<FailedJobList, std::string>)>;
  void read_failed_jobs(std::uint64_t sequence, Reader::User user, OnFailedJobs on_read);

  // ---- The database ----

  // For messages: its folder, or the address of its database.
  const std::string& place() const { return engine_->place(); }
  // As Engine::is_on_network(): load() may wait for another machine.
  bool is_on_network() const { return engine_->is_on_network(); }
  // As Engine::id(): numbers of batches mean the same in stores with the same id.
  const std::string& id() const { return engine_->id(); }
  // The bytes of all batches in the store; the engine compares them with what its rows take.
  void set_live_bytes(std::uint64_t bytes);
  // [the thread of start()] Copies the written rows (Backups::make).
  std::expected<void, std::string> back_up(const std::string& directory, const std::string& name,
                                           Backups::Done done) {
    return backups_->make(directory, name, std::move(done));
  }
  // Why this store makes no copies, for the client; empty: it makes them.
  std::string_view why_no_copies() const { return engine_->why_no_copies(); }

  struct Stats {
    const DurationHistogram& commit_time;
    std::uint64_t disk_bytes;  // of the engine's rows, measured at most a second ago
    std::uint64_t errors;
    std::optional<DiskSpace> disk;          // likewise; nothing: it is not known
    std::optional<Backups::Stats> backups;  // nothing: the engine makes no copies
  };
  Stats stats() const;

 private:
  Store(std::unique_ptr<Engine> engine, const Options& options, std::shared_ptr<spdlog::logger> log);

  // Refuses a store of another format, and writes the first rows of a new one.
  std::expected<void, StoreRefusal> check_form();
  std::expected<void, StoreRefusal> read_first_marked();
  // Writes a row that the store has once.
  std::expected<void, StoreRefusal> write_once(char key, std::string_view value, Engine::Sync sync);
  // The errors of open() and recover().
  StoreRefusal cannot_open(const EngineError& error) const;
  StoreRefusal damaged(std::string_view what, Engine::Damage damage) const;
  // `where`: before the error's own words, such as "batch number 3: ".
  StoreRefusal cannot_read(std::string_view where, const EngineError& error) const;

  // The rows of a batch for load(); the error is for the client.
  std::expected<RowValues, std::string> rows_to_load(std::uint64_t sequence,
                                                     std::chrono::milliseconds patience,
                                                     ReadingConnection connection);
  void read_failed_part(std::unique_ptr<FailedJobsReading> reading, Reader::User user, OnFailedJobs on_read);
  // The numbers from `first` to `last` that have rows.
  std::expected<std::vector<std::uint64_t>, EngineError> numbers_with_rows(const EngineReading& reading,
                                                                           std::uint64_t first,
                                                                           std::uint64_t last) const;
  // Move the failed jobs, and the patterns, out of rows of an earlier version, into rows of their
  // own. While the disk fails, the other rows stay as they are.
  void move_failed_apart();
  void move_patterns_apart();

  const std::unique_ptr<Engine> engine_;
  const std::uint64_t failed_ranges_;  // RowSizes
  const std::shared_ptr<spdlog::logger> log_;
  std::vector<std::uint64_t> long_ends_;  // recover() has found them, for move_failed_apart()
  struct LongPattern {
    std::uint64_t sequence;
    bool is_wanted;  // a job may run again
  };
  std::vector<LongPattern> long_patterns_;  // likewise, for move_patterns_apart()
  std::uint64_t first_marked_ = 0;  // the first batch that has marks for all its results that are not ok
  std::uint64_t next_sequence_ = 1;
  std::optional<TakeNumbers> numbers_to_take_;  // start() puts it
  // Numbers that have rows and are those of no accepted batch: recover() has found them, and
  // start() deletes their rows.
  std::vector<std::uint64_t> orphans_;
  const std::unique_ptr<GroupCommit> group_;
  const std::unique_ptr<Reader> reader_;
  // For read_short(). Null: read_short() uses reader_, whose readings take no longer on a disk.
  const std::unique_ptr<Reader> short_reader_;
  const std::unique_ptr<Reachability> reachability_;
  const std::unique_ptr<PayloadFetcher> fetcher_;  // null: executors read the engine themselves
  const std::unique_ptr<Backups> backups_;
  // After a load() without a reply: when the next one may ask. A load() that reads an old value
  // asks once more.
  std::atomic<Nanoseconds> next_load_{Nanoseconds::min()};
  // The reader's thread has been told to ask whether the server replies, for which it may connect.
  std::atomic<bool> is_asking_{false};

  // By user; entries are never removed, since users are not.
  Mutex users_mutex_;
  std::unordered_map<Reader::User, std::shared_ptr<PendingOfUser>> pending_of_users_
      LOCKSLEY_GUARDED_BY(users_mutex_);

  // The usage is measured when it is asked for: background work of the engine changes the files at
  // any time.
  static constexpr Nanoseconds kMeasurePeriod = std::chrono::seconds(1);
  Engine::Usage usage() const LOCKSLEY_EXCLUDES(measuring_);
  mutable Mutex measuring_;
  mutable Engine::Usage usage_ LOCKSLEY_GUARDED_BY(measuring_);
  mutable Nanoseconds measured_at_ LOCKSLEY_GUARDED_BY(measuring_) = -kMeasurePeriod;
};

}  // namespace locksley::daemon

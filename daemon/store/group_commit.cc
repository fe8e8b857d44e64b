#include "daemon/store/group_commit.h"

#include <rocksdb/write_batch.h>
#include <spdlog/logger.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "core/batch.h"
#include "daemon/store/codec.h"
#include "daemon/store/database.h"

namespace locksley::daemon {
namespace {

constexpr Nanoseconds kStepDelay =
    std::chrono::milliseconds(5);  // half of what is promised; the rest is for the sync
constexpr Nanoseconds kFirstPause = std::chrono::seconds(1);
constexpr Nanoseconds kLongestPause = std::chrono::seconds(5);
constexpr Nanoseconds kSyncPeriod = std::chrono::seconds(1);  // durability: async
constexpr Nanoseconds kLookPeriod = std::chrono::seconds(1);

constexpr std::size_t kLargestWrite = 4U << 20;  // of one write of RocksDB, but for single large values
constexpr std::size_t kChunkBytes = 128U << 10;  // guess: read in 50 us, a hundredth of its jobs' time
constexpr std::uint64_t kChunkPayloads = 4096;
constexpr int kMostDeletes =
    16;  // rows deleted one by one; more of them as a range, which is slower to read over

std::size_t weight_of(const StoreWrite& write) {
  const auto* step = std::get_if<RecordStep>(&write);
  return step == nullptr ? 0 : sizeof(StoreWrite) + step->step.rows.size_bytes;
}

rocksdb::Slice slice(std::string_view bytes) { return {bytes.data(), bytes.size()}; }

}  // namespace

PayloadParts parts_of(const proto::ArgumentList& payloads) {
  if (payloads.empty()) return PayloadParts::kNone;
  const bool fits =
      payloads.size() == 1 || (payloads.size() <= kChunkPayloads && payloads.payload_bytes() <= kChunkBytes);
  return fits ? PayloadParts::kOne : PayloadParts::kUnknown;
}

// Puts the writes of a group into RocksDB's batches. Payloads of large batches are written while they are put
// together, so that they are not held twice; everything else, and with it all that makes them count, goes in
// one last write: so a group that fails leaves nothing that counts, and a crash nothing by half.
class GroupCommit::Filler {
 public:
  explicit Filler(Database& database) : database_(database) {}

  void operator()(const AcceptBatch& accept) {
    touched_.insert(accept.sequence);
    if (accept.payloads != nullptr) put_payloads(accept.sequence, 0, *accept.payloads);
    last_.Put(database_.index(), row_key(kAcceptedKey, accept.sequence), encode(accept.row));
  }

  void operator()(const AddJobs& add) {
    touched_.insert(add.sequence);
    put_payloads(add.sequence, add.first, *add.payloads);
    put_changes(add.sequence, add.changes);
  }

  void operator()(const ChangeBatch& change) {
    touched_.insert(change.sequence);
    if (change.trims_payloads) {
      last_.DeleteRange(database_.payloads(), part_key(change.sequence, change.changes.jobs),
                        part_key(change.sequence + 1, 0));
    }
    put_changes(change.sequence, change.changes);
  }

  void operator()(const RecordStep& record) {
    const BatchStep& step = record.step;
    const bool is_last = step.finished_at != 0;
    if (step.rows.rows != 0) {
      last_.Put(database_.results(), part_key(record.sequence, step.rows.first_row), encode(step.rows));
    }
    last_.Put(database_.index(),
              is_last ? row_key(kEndKey, record.sequence) : step_key(record.sequence, step.number),
              encode(step));
    if (is_last) delete_steps(record.sequence, step.number);
    if (is_last && step.totals.failed() == 0) delete_payloads(record.sequence, record.parts);
    touched_.insert(record.sequence);
  }

  void operator()(const ForgetBatch& forget) {
    for (const char kind : {kAcceptedKey, kChangesKey, kEndKey}) {
      last_.Delete(database_.index(), row_key(kind, forget.sequence));
    }
    delete_payloads(forget.sequence, forget.parts);
    if (forget.has_one_step) {
      last_.Delete(database_.results(), part_key(forget.sequence, 0));
    } else {
      delete_prefix(*database_.index(), row_key(kStepKey, forget.sequence), forget.sequence);
      delete_parts(*database_.results(), forget.sequence);
    }
    touched_.insert(forget.sequence);
  }

  std::expected<void, std::string> finish(bool sync) {
    flush_payloads();
    if (!failure_.empty()) return std::unexpected(failure_);
    return database_.write(last_, sync);
  }

 private:
  void put_changes(std::uint64_t sequence, const ChangesRow& changes) {
    last_.Put(database_.index(), row_key(kChangesKey, sequence), encode(changes));
  }

  void put_payloads(std::uint64_t sequence, std::uint64_t first, const proto::ArgumentList& payloads) {
    // A small batch with the rest: that saves a write.
    rocksdb::WriteBatch& into = parts_of(payloads) == PayloadParts::kOne ? last_ : payloads_;
    std::vector<std::string_view> views(std::min<std::uint64_t>(kChunkPayloads, payloads.size()));
    for (std::uint64_t done = 0; done < payloads.size();) {
      const std::span<const std::string_view> fetched(views.data(), payloads.fetch(done, views));
      std::size_t bytes = 0;
      std::size_t take = 0;
      while (take < fetched.size() && (take == 0 || bytes + fetched[take].size() <= kChunkBytes)) {
        bytes += fetched[take++].size();
      }
      into.Put(database_.payloads(), part_key(sequence, first + done),
               encode_payload_chunk(fetched.first(take)));
      done += take;
      if (payloads_.GetDataSize() >= kLargestWrite) flush_payloads();
    }
  }

  void flush_payloads() {
    if (failure_.empty() && payloads_.Count() != 0) {
      if (auto written = database_.write(payloads_, false); !written) failure_ = std::move(written.error());
    }
    payloads_.Clear();
  }

  void delete_steps(std::uint64_t sequence, std::uint64_t count) {
    if (count <= kMostDeletes) {
      for (std::uint64_t i = 0; i < count; ++i) last_.Delete(database_.index(), step_key(sequence, i));
    } else {
      last_.DeleteRange(database_.index(), step_key(sequence, 0), step_key(sequence, count));
    }
  }

  void delete_payloads(std::uint64_t sequence, PayloadParts parts) {
    if (parts == PayloadParts::kOne) last_.Delete(database_.payloads(), part_key(sequence, 0));
    if (parts == PayloadParts::kUnknown) delete_parts(*database_.payloads(), sequence);
  }

  void delete_parts(rocksdb::ColumnFamilyHandle& family, std::uint64_t sequence) {
    std::string prefix;
    append_key_number(prefix, sequence);
    delete_prefix(family, prefix, sequence);
  }

  void delete_prefix(rocksdb::ColumnFamilyHandle& family, const std::string& prefix, std::uint64_t sequence);

  Database& database_;
  rocksdb::WriteBatch payloads_;
  rocksdb::WriteBatch last_;
  std::unordered_set<std::uint64_t> touched_;  // batches that this group has written of
  std::string failure_;
};

void GroupCommit::Filler::delete_prefix(rocksdb::ColumnFamilyHandle& family, const std::string& prefix,
                                        std::uint64_t sequence) {
  if (!failure_.empty()) return;
  std::vector<std::string> keys;
  // What this group has put is not there to be found yet.
  bool is_known = !touched_.contains(sequence);
  if (is_known) {
    const Database::Reading reading(database_);
    if (!reading.is_valid()) return;
    const auto visited = visit_prefix(reading, family, prefix, [&](std::string_view key, std::string_view) {
      keys.emplace_back(key);
      return keys.size() <= kMostDeletes;
    });
    if (!visited) {
      failure_ = visited.error();
      return;
    }
    is_known = keys.size() <= kMostDeletes;
  }
  if (is_known) {
    for (const std::string& key : keys) last_.Delete(&family, key);
  } else {
    std::string end = prefix;
    end.append(9, '\xFF');  // behind all of its keys, which have 8 bytes more
    last_.DeleteRange(&family, slice(prefix), slice(end));
  }
}

GroupCommit::GroupCommit(Database& database, config::Durability durability,
                         std::shared_ptr<spdlog::logger> log)
    : database_(database), durability_(durability), log_(std::move(log)), pause_(kFirstPause) {}

void GroupCommit::start(std::function<void(Outcome)> on_outcome) {
  on_outcome_ = std::move(on_outcome);
  disk_bytes_ = database_.disk_bytes();
  thread_ = std::thread([this] { run(); });
}

GroupCommit::~GroupCommit() { stop(); }

void GroupCommit::stop() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  room_.notify_all();
  thread_.join();
}

Ticket GroupCommit::put(StoreWrite write) {
  const bool is_urgent = !std::holds_alternative<RecordStep>(write);
  bool wakes = false;
  Ticket ticket = 0;
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return ticket_;
    pending_bytes_ += weight_of(write);
    if (gathering_.empty()) due_ = steady_now() + kStepDelay;
    // The writer, if it sleeps, sleeps for ever, or until something is due.
    wakes = sleeping_ && (is_urgent ? !urgent_.load() : gathering_.empty());
    gathering_.push_back(std::move(write));
    if (is_urgent) urgent_ = true;
    ticket = ticket_;
  }
  if (wakes) wake_.notify_one();
  return ticket;
}

void GroupCommit::wait_for_room() {
  std::unique_lock lock(mutex_);
  room_.wait(lock, [this] { return has_room() || stopping_; });
}

// [needs mutex_]
bool GroupCommit::has_room() const {
  return pending_bytes_ <= (error_.empty() ? kMostPending : kMostPendingWhileItFails);
}

std::string GroupCommit::error() const {
  const std::lock_guard lock(mutex_);
  return error_;
}

void GroupCommit::run() {
  std::unique_lock lock(mutex_);
  while (wait_for_work(lock) == Woken::by_work) commit(lock);
  // What is left, and what the disk did not take before.
  if (!error_.empty()) try_again(lock);
  commit(lock);
  if (!kept_.empty()) {
    log_->error(
        "store: {} changes and results could not be written and are lost: these jobs will run again; "
        "error=\"{}\"",
        kept_.size(), error_);
  }
}

GroupCommit::Woken GroupCommit::wait_for_work(std::unique_lock<std::mutex>& lock) {
  for (;;) {
    if (urgent_) return Woken::by_work;
    if (stopping_) return Woken::by_stop;
    const Nanoseconds now = steady_now();
    if (!gathering_.empty() && now >= due_) return Woken::by_work;
    if (!error_.empty() && now >= next_try_) {
      try_again(lock);
      continue;
    }
    Nanoseconds until = Nanoseconds::max();
    if (!gathering_.empty()) until = due_;
    if (!error_.empty()) until = std::min(until, next_try_);
    if (unsynced_ && error_.empty()) {
      if (now >= next_sync_) {
        lock.unlock();
        auto synced = database_.sync();
        lock.lock();
        unsynced_ = false;
        if (!synced) fail(std::move(synced.error()), {});
        continue;
      }
      until = std::min(until, next_sync_);
    }
    lock.unlock();
    const bool found = spin_.look(true, [this] { return urgent_.load(); });
    lock.lock();
    if (found || urgent_ || stopping_) continue;
    sleeping_ = true;
    if (until == Nanoseconds::max()) {
      if (gathering_.empty()) wake_.wait(lock);
    } else {
      wake_.wait_until(lock, std::chrono::steady_clock::time_point(until));
    }
    sleeping_ = false;
    if (urgent_) spin_.slept();
  }
}

void GroupCommit::commit(std::unique_lock<std::mutex>& lock) {
  Writes writes = std::exchange(gathering_, {});
  if (writes.empty()) return;
  const bool is_awaited = urgent_.exchange(false);
  const Ticket ticket = ticket_++;
  std::string error = error_;
  lock.unlock();
  if (error.empty()) {
    const Nanoseconds began = steady_now();
    if (auto written = write(writes); !written) error = std::move(written.error());
    commit_time_.observe(steady_now() - began);
    if (began >= next_look_) look_at_disk();
  }
  std::size_t weight = 0;
  if (error.empty()) {
    for (const StoreWrite& each : writes) weight += weight_of(each);
    keep_in_memory(writes);
    writes.clear();  // not under the mutex
  }
  lock.lock();
  pending_bytes_ -= weight;
  room_.notify_all();
  if (!error.empty()) fail(error, std::move(writes));
  lock.unlock();
  if (is_awaited) on_outcome_({ticket, std::move(error)});
  lock.lock();
}

std::expected<void, std::string> GroupCommit::write(const Writes& writes) {
  Filler filler(database_);
  for (const StoreWrite& each : writes) std::visit(filler, each);
  if (durability_ == config::Durability::kAsync && !std::exchange(unsynced_, true)) {
    next_sync_ = steady_now() + kSyncPeriod;
  }
  return filler.finish(durability_ == config::Durability::kFsync);
}

// [needs mutex_]
void GroupCommit::fail(std::string error, Writes writes) {
  for (StoreWrite& each : writes) {
    // Whoever wanted these accepted hears that they are not.
    if (!std::holds_alternative<AcceptBatch>(each) && !std::holds_alternative<AddJobs>(each)) {
      kept_.push_back(std::move(each));
    }
  }
  if (error_.empty()) {
    ++errors_;
    log_->error(
        "store: cannot write to {}: nothing new is accepted, what is in memory goes on; it is tried again; "
        "error=\"{}\"",
        database_.path(), error);
    next_try_ = steady_now() + pause_;
  }
  error_ = std::move(error);
  room_.notify_all();
}

// [needs mutex_, which it lets go of meanwhile]
void GroupCommit::try_again(std::unique_lock<std::mutex>& lock) {
  lock.unlock();
  std::expected<void, std::string> done = database_.reopen();
  if (done) {
    // Synced in any case: after a failure nothing is left to chance.
    Filler filler(database_);
    for (const StoreWrite& each : kept_) std::visit(filler, each);
    done = filler.finish(true);
  }
  std::size_t weight = 0;
  if (done) {
    keep_in_memory(kept_);
    for (const StoreWrite& each : std::exchange(kept_, {})) weight += weight_of(each);
  }
  lock.lock();
  pending_bytes_ -= weight;
  if (done) {
    log_->info("store: {} can be written again: batches are accepted", database_.path());
    error_.clear();
    pause_ = kFirstPause;
    room_.notify_all();
    return;
  }
  ++errors_;
  error_ = std::move(done.error());
  pause_ = std::min(2 * pause_, kLongestPause);
  next_try_ = steady_now() + pause_;
  log_->warn("store: {} still cannot be written; next try in {} s; error=\"{}\"", database_.path(),
             std::chrono::duration_cast<std::chrono::seconds>(pause_).count(), error_);
}

void GroupCommit::keep_in_memory(const Writes& written) {
  for (const StoreWrite& each : written) {
    const auto* record = std::get_if<RecordStep>(&each);
    if (record == nullptr || record->step.rows.rows == 0) continue;
    const ResultLog::Slice& rows = record->step.rows;
    recent_.push_back({record->step.batch, rows.first_row + rows.rows, rows.size_bytes + sizeof(Recent)});
    recent_bytes_ += recent_.back().bytes;
  }
  for (; recent_bytes_ > kResultMemory; recent_.pop_front()) {
    const Recent& oldest = recent_.front();
    if (const std::shared_ptr<Batch> batch = oldest.batch.lock()) batch->drop_rows_before(oldest.end);
    recent_bytes_ -= oldest.bytes;
  }
}

void GroupCommit::look_at_disk() {
  next_look_ = steady_now() + kLookPeriod;
  disk_bytes_ = database_.disk_bytes();
}

}  // namespace locksley::daemon

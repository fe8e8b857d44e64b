// A store of a test's own, on a disk that can be made to fail.
#pragma once

#include <gtest/gtest.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/null_sink.h>
#include <stdlib.h>

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/index_ranges.h"
#include "core/sync/mutex.h"
#include "daemon/store/store.h"
#include "tests/support/quick_place.h"
#include "tests/support/store_disk.h"
#include "tests/support/store_model.h"

namespace locksley::testing {

// A folder with a name of its own; goes with all that is in it.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (quick_place() / "locksley-store-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("cannot make " + pattern);
    path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// The outcomes that a store reports. Outlives the store; any thread may call anything.
class Outcomes {
 public:
  std::function<void(daemon::Outcome)> listener() {
    return [this](daemon::Outcome outcome) {
      {
        const MutexLock lock(mutex_);
        heard_.push_back(std::move(outcome));
      }
      changed_.notify_all();
    };
  }

  // The outcome of the group with this ticket. Fails the test if it does not come in 30 s.
  daemon::Outcome await(daemon::Ticket ticket) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    const MutexLock lock(mutex_);
    while (heard_.empty() || heard_.back().up_to < ticket) {
      if (changed_.wait_until(mutex_, deadline) == std::cv_status::timeout) {
        ADD_FAILURE() << "gave up waiting for the outcome of group " << ticket;
        return {ticket, "no outcome"};
      }
    }
    for (const daemon::Outcome& outcome : heard_) {
      if (outcome.up_to >= ticket) return outcome;
    }
    return heard_.back();
  }
  std::vector<daemon::Outcome> all() const {
    const MutexLock lock(mutex_);
    return heard_;
  }

 private:
  mutable Mutex mutex_;
  CondVar changed_;
  std::vector<daemon::Outcome> heard_ LOCKSLEY_GUARDED_BY(mutex_);
};

// Waits until `is_true`, for two minutes at most; returns whether it became true.
inline bool wait_until_true(const std::function<bool()>& is_true) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  while (!is_true()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

inline std::shared_ptr<spdlog::logger> silent_log() {
  return std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::null_sink_mt>());
}

// The urgency that the daemon uses: no caller waits for steps.
inline daemon::Urgency urgency_of(const daemon::StoreWrite& write) {
  return std::holds_alternative<daemon::RecordStep>(write) ? daemon::Urgency::kWithNext
                                                           : daemon::Urgency::kAwaited;
}

// A folder, a disk for it, and a store that is open or not. Destroyed in the order in which a
// process ends.
class StoreBench {
 public:
  explicit StoreBench(std::uint64_t seed = 1, config::Durability durability = config::Durability::kFsync)
      : disk(make_store_disk(folder.path(), seed)), durability_(durability) {}

  daemon::Store::Options options() const {
    return {folder.path().string(),
            durability_,
            disk->engine(),
            {compact_steps, failed_ranges, in_group, merged_at_once},
            patience,
            fetching};
  }

  // Opens and recovers the store; returns its content, or the error of either step.
  std::expected<Picture, std::string> try_recover() {
    auto opened = daemon::Store::open(options(), silent_log());
    if (!opened) return std::unexpected(opened.error().what);
    store = std::move(*opened);
    auto picture = picture_of(*store);
    if (!picture) store.reset();
    return picture;
  }
  void start() {
    outcomes = std::make_unique<Outcomes>();
    store->start(outcomes->listener());
  }
  // Opens, recovers and starts the store, which must succeed. Returns its content.
  Picture open() {
    auto picture = try_recover();
    if (!picture) throw std::runtime_error("the store does not open: " + picture.error());
    start();
    return std::move(*picture);
  }
  // A clean end, or, once power is cut, an end without a chance to write.
  void close() {
    if (store) store->stop();
    store.reset();
  }
  Picture reopen() {
    close();
    return open();
  }

  // Writes, and waits for the outcome. The model has the write, too.
  void commit(daemon::StoreWrite write) {
    const daemon::Ticket ticket = put(std::move(write));
    EXPECT_EQ(outcomes->await(ticket).error, "");
  }
  daemon::Ticket put(daemon::StoreWrite write) {
    const daemon::Urgency urgency = urgency_of(write);
    return put(std::move(write), urgency);
  }
  daemon::Ticket put(daemon::StoreWrite write, daemon::Urgency urgency) {
    model.apply(write);
    return store->put(std::move(write), urgency);
  }
  // Steps, for which no caller waits, are on the disk once a later write is. That write is of a
  // batch that does not exist.
  void flush() {
    const daemon::Ticket ticket = store->put(daemon::ForgetBatch{1ULL << 60}, daemon::Urgency::kAwaited);
    EXPECT_EQ(outcomes->await(ticket).error, "");
  }
  std::string place() const { return disk->place(folder.path()); }
  std::vector<RawRow> raw() const { return disk->rows(); }
  // Changes rows of the closed store directly.
  void edit(const std::function<void(daemon::Engine::Group&)>& change) const {
    const ThreadRoleScope role(daemon::kStoreWriter);
    auto engine = disk->engine()({folder.path().string(), durability_, silent_log()});
    if (!engine) throw std::runtime_error("the engine does not open: " + engine.error().what);
    const auto group = (*engine)->new_group();
    change(*group);
    EXPECT_TRUE((*engine)->commit(*group, daemon::Engine::Sync::kSynced).has_value());
  }

  const TemporaryFolder folder;
  const std::unique_ptr<StoreDisk> disk;
  std::uint64_t compact_steps = 4;  // far fewer than in the daemon, so that steps are merged in all tests
  std::uint64_t failed_ranges = 1;  // likewise, so that failed jobs lie in rows of their own
  std::size_t in_group = daemon::kMostInGroup;
  std::uint64_t merged_at_once = daemon::StepCompactor::kBytesAtOnce;
  daemon::GroupPatience patience;  // as in the daemon
  // A fetch waits for its payloads, however busy the machine is.
  daemon::PayloadFetcher::Options fetching{.patience = std::chrono::seconds(30)};

 private:
  const config::Durability durability_;

 public:
  std::unique_ptr<Outcomes> outcomes;
  std::unique_ptr<daemon::Store> store;
  StoreModel model;
};

// Steps of one batch, made as the scheduler makes them.
class StepMaker {
 public:
  explicit StepMaker(std::uint64_t sequence) : sequence_(sequence) { step_.started_at = 1'700'000'000'000; }
  // Continues after the steps of a batch that an earlier process left.
  StepMaker(std::uint64_t sequence, const StoreModel::Batch& batch) : StepMaker(sequence) {
    log_.begin_at(batch.last.row_count, batch.last.result_bytes);
    step_ = batch.last;
    step_.ended = step_.failed = step_.requeued = {};
    step_.job_attempts = {};
    step_.is_base = false;
    step_.number = batch.steps;
    step_.started_at = 1'700'000'000'000;
  }

  // These jobs ended, with these rows (of those jobs that have one).
  daemon::RecordStep end_jobs(std::vector<IndexRange> ended, const EndedJobs& by_status,
                              const std::vector<StoredRow>& rows) {
    return make(std::move(ended), by_status, append_rows(log_, rows));
  }
  // The same where all jobs end with this status, each with a row.
  daemon::RecordStep end_jobs(IndexRange range, JobStatus status = JobStatus::kOk) {
    std::vector<StoredRow> rows;
    for (std::uint64_t job = range.low; job < range.high; ++job) {
      rows.push_back({job, status, "output of " + std::to_string(job)});
    }
    EndedJobs ended;
    ended.by_status[static_cast<std::size_t>(status)] = range.size();
    return end_jobs({range}, ended, rows);
  }
  // Cancels jobs that never ran.
  daemon::RecordStep cancel_jobs(IndexRange range, const std::string& reason) {
    step_.cancelled = true;
    step_.stop_reason = reason;
    EndedJobs ended;
    ended.by_status[static_cast<std::size_t>(JobStatus::kCancelled)] = range.size();
    return make({range}, ended, log_.append_runs({&range, 1}, JobStatus::kCancelled, reason));
  }
  // These failed, and will be retried.
  daemon::RecordStep retry_jobs(std::vector<JobAttempts> job_attempts) {
    for (const JobAttempts& jobs : job_attempts) step_.retried += jobs.jobs.size();
    daemon::RecordStep write = make({}, {}, {});
    write.step.job_attempts = std::move(job_attempts);
    return write;
  }
  // These, all that had failed, have not ended after all. `ended`: all others, of a batch that was
  // over.
  daemon::RecordStep requeue(std::vector<IndexRange> failed, std::vector<JobAttempts> job_attempts,
                             std::optional<std::vector<IndexRange>> ended = {}) {
    for (const JobStatus status : {JobStatus::kError, JobStatus::kTimeout, JobStatus::kCrashed}) {
      step_.totals.by_status[static_cast<std::size_t>(status)] = 0;
    }
    step_.retried += count_of(failed);
    step_.superseded = log_.rows();
    ++step_.retry_rounds;
    step_.finished_at = 0;
    if (ended) step_.number = 0;
    daemon::RecordStep write = make({}, {}, {});
    write.step.is_base = ended.has_value();
    if (ended) write.step.ended = std::move(*ended);
    write.step.requeued = std::move(failed);
    write.step.job_attempts = std::move(job_attempts);
    return write;
  }
  // The step that was made last becomes the batch's end.
  static daemon::RecordStep as_last(daemon::RecordStep write) {
    write.step.finished_at = 1'700'000'100'000;
    return write;
  }
  daemon::RecordStep end_batch() { return as_last(make({}, {}, {})); }

 private:
  daemon::RecordStep make(std::vector<IndexRange> ended, const EndedJobs& by_status, ResultLog::Rows rows) {
    BatchStep step = step_;
    for (std::size_t i = 0; i < kJobStatuses; ++i) step.totals.by_status[i] += by_status.by_status[i];
    step.row_count = log_.rows();
    step.result_bytes = log_.appended_bytes();
    step_ = step;
    ++step_.number;
    step.ended = std::move(ended);
    step.rows = std::move(rows);
    return {sequence_, std::move(step)};
  }

  const std::uint64_t sequence_;
  ResultLog log_;
  BatchStep step_;  // the next one, as far as it is known
};

// `ok` jobs ended well, and `error` jobs in an error.
inline EndedJobs ended(std::uint64_t ok, std::uint64_t error) {
  EndedJobs jobs;
  jobs.by_status[static_cast<std::size_t>(JobStatus::kOk)] = ok;
  jobs.by_status[static_cast<std::size_t>(JobStatus::kError)] = error;
  return jobs;
}

// A batch of this many payloads, "payload 0" and so on.
inline daemon::AcceptBatch accept_batch(std::uint64_t sequence, std::uint64_t jobs) {
  std::vector<std::string> payloads;
  daemon::AcceptBatch accept{.sequence = sequence, .row = {}, .payloads = nullptr};
  for (std::uint64_t i = 0; i < jobs; ++i) {
    payloads.push_back("payload " + std::to_string(i) + " of " + std::to_string(sequence));
    accept.row.payload_bytes += payloads.back().size();
  }
  accept.row.handler = "echo";
  accept.row.options.id = "batch-" + std::to_string(sequence);
  accept.row.submitted_at = 1'700'000'000'000 + static_cast<std::int64_t>(sequence);
  accept.row.jobs = jobs;
  accept.payloads = payloads_of(payloads);
  return accept;
}
// A batch to stream into.
inline daemon::AcceptBatch open_batch(std::uint64_t sequence) {
  daemon::AcceptBatch accept = accept_batch(sequence, 0);
  accept.row.is_streamed = true;
  accept.payloads = nullptr;
  return accept;
}
inline daemon::AddJobs add_jobs(std::uint64_t sequence, std::uint64_t first,
                                const std::vector<std::string>& payloads) {
  daemon::AddJobs add{.sequence = sequence, .first = first, .payloads = payloads_of(payloads), .changes = {}};
  add.changes.jobs = first + payloads.size();
  return add;
}

// So many payloads that they go to the engine in several writes.
inline std::vector<std::string> large_payloads() {
  std::vector<std::string> payloads;
  for (int i = 0; i < 6; ++i) payloads.emplace_back(std::size_t{1} << 20, static_cast<char>('a' + i));
  return payloads;
}

}  // namespace locksley::testing

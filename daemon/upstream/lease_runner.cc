#include "daemon/upstream/lease_runner.h"

#include <spdlog/logger.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "core/batch/batch_results.h"
#include "core/batch/job_facts.h"
#include "core/lane/lane_view.h"
#include "daemon/base/log/log_line.h"
#include "daemon/base/time.h"
#include "proto/bulk.h"

namespace locksley::daemon {
namespace {

// Consecutive jobs with the same status, encoded as the arguments of SETTLE.
class Run {
 public:
  Run(LeaseKey lease, LeaseSink& sink) : lease_(lease), sink_(sink) {}

  void add(const ResultRow& row) {
    const bool continues = row.index == first_ + count_ && row.status == status_;
    const bool is_full = count_ == LeaseRunner::kMostJobs || outputs_.size() >= LeaseRunner::kMostBytes;
    if (count_ != 0 && (!continues || is_full)) end();
    if (count_ == 0) {
      first_ = row.index;
      status_ = row.status;
    }
    ++count_;
    append(row.output);
  }
  void end() {
    if (count_ == 0) return;
    sink_.settle(lease_, status_, first_, count_, std::exchange(outputs_, {}));
    count_ = 0;
  }

 private:
  void append(std::string_view output) {
    const std::size_t size = outputs_.size();
    const std::size_t most = size + proto::max_bulk_bytes(output.size());
    // Avoids writing zeros that are overwritten at once. The string grows by doubling.
    outputs_.resize_and_overwrite(most, [&](char* bytes, std::size_t) {
      return static_cast<std::size_t>(proto::write_bulk(bytes + size, output) - bytes);
    });
  }

  const LeaseKey lease_;
  LeaseSink& sink_;
  JobStatus status_ = JobStatus::kOk;
  std::uint64_t first_ = 0;
  std::uint64_t count_ = 0;
  std::string outputs_;
};

}  // namespace

LeaseRunner::LeaseRunner(Lane& lane, std::vector<LeaseHandler> handlers, HandlerUse& use,
                         ResultAccount* results, std::function<void()> wake,
                         std::shared_ptr<spdlog::logger> log)
    : lane_(lane),
      handlers_(std::move(handlers)),
      use_(use),
      results_(results),
      wake_(std::move(wake)),
      log_(std::move(log)) {}

LeaseRunner::~LeaseRunner() = default;

// ---- For the link ----

bool LeaseRunner::begin(LeaseKey lease, LeasedJobs jobs) {
  const auto served = std::ranges::find(handlers_, jobs.handler,
                                        [](const LeaseHandler& each) { return each.handler->name(); });
  if (served == handlers_.end() || !use_.enter(*served->handler)) return false;
  BatchOptions options;
  options.id = std::move(jobs.id);
  options.tenant = std::move(jobs.tenant);
  options.queue_tenant = kTenant;
  options.trace = std::move(jobs.trace);
  options.slots = 1;
  options.gate = served->gate;
  options.timeout = jobs.timeout;
  options.results = results_;
  auto batch =
      std::make_shared<LeaseBatch>(std::move(options), *served->handler, std::move(jobs.payloads), this);
  batch->key = lease;
  batch->range = jobs.range;
  // Restored as if the jobs below the range had ended here: so the jobs have the indexes of the
  // upstream's batch.
  BatchHistory history;
  history.jobs = jobs.range.high;
  history.closed = true;
  history.attempt = jobs.attempt;
  history.totals.by_status[static_cast<std::size_t>(JobStatus::kOk)] = jobs.range.low;
  history.submitted_at = unix_milliseconds();
  if (!jobs.note.empty()) history.notes.push_back({jobs.range.low, jobs.note});
  batch->restore(history);
  leases_.emplace(lease, batch);
  lane_.enqueue(batch, {&jobs.range, 1}, /*open=*/false);
  return true;
}

LeaseRunner::LeaseBatch* LeaseRunner::find(LeaseKey lease) const {
  const auto found = leases_.find(lease);
  return found == leases_.end() ? nullptr : found->second.get();
}

std::uint64_t LeaseRunner::withdraw(LeaseKey lease, std::uint64_t at) {
  LeaseBatch* const batch = find(lease);
  const auto first = batch == nullptr ? std::nullopt : lane_.withdraw(*batch, at);
  return first.value_or(std::numeric_limits<std::uint64_t>::max());
}

void LeaseRunner::finish(LeaseKey lease) { cancel(lease, RunningJobs::kGoOn); }

void LeaseRunner::stop(LeaseKey lease) { cancel(lease, RunningJobs::kStop); }

void LeaseRunner::cancel(LeaseKey lease, RunningJobs running) {
  const auto found = leases_.find(lease);
  if (found == leases_.end()) return;
  const std::shared_ptr<LeaseBatch> batch = found->second;
  lane_.cancel(*batch, "stopped by the upstream daemon", running);
}

std::uint64_t LeaseRunner::next(LeaseKey lease) {
  const LeaseBatch* const batch = find(lease);
  if (batch == nullptr) return 0;
  const std::uint64_t unclaimed = lane_.view().first_unclaimed(*batch);
  return std::min(unclaimed, lane_.running().first_starting(*batch).value_or(unclaimed));
}

// ---- Results ----

void LeaseRunner::batch_changed(const std::shared_ptr<Batch>& batch) {
  // Every batch that has this observer is a LeaseBatch.
  auto changed = std::static_pointer_cast<LeaseBatch>(batch);
  const bool is_over = changed->is_over();
  // Only its first executor has begun: there is nothing to pass on.
  if (!is_over && changed->status().rows == 0) return;
  const bool is_first = changed->set_changed();
  if (!is_first && !is_over) return;
  bool wakes;
  {
    const MutexLock lock(mutex_);
    if (is_first) changed_.push_back(std::move(changed));
    wakes = !woken_ && (is_over || !holding_off_);
    woken_ = woken_ || wakes;
  }
  if (wakes) wake_();
}

void LeaseRunner::handler_threw(const Batch& batch, std::uint64_t index, std::string_view what) {
  if (!log_->should_log(spdlog::level::warn)) return;
  std::uint64_t unlogged = 0;
  {
    const MutexLock lock(mutex_);
    if (!threw_.open(now())) return;
    unlogged = threw_.held_back();
  }
  LogLine("handler threw")
      .about(batch)
      .with("job", index)
      .with("what", what)
      .with("unlogged", unlogged)
      .write(*log_, spdlog::level::warn);
}

bool LeaseRunner::take(LeaseSink& sink) {
  std::vector<std::shared_ptr<LeaseBatch>> changed;
  {
    const MutexLock lock(mutex_);
    changed.swap(changed_);
    woken_ = false;
    holding_off_ = false;
  }
  bool goes_on = false;
  for (const std::shared_ptr<LeaseBatch>& batch : changed) {
    batch->clear_changed();
    // Read before the rows: a batch that is over has all its rows.
    const bool is_over = batch->is_over();
    if (find(batch->key) != batch.get()) continue;
    pass_on(*batch, sink);
    goes_on = goes_on || !is_over;
    if (!is_over) continue;
    use_.leave(batch->handler());
    sink.ended(batch->key);
    leases_.erase(batch->key);
  }
  if (!goes_on) return false;
  const MutexLock lock(mutex_);
  holding_off_ = true;
  return true;
}

void LeaseRunner::pass_on(LeaseBatch& batch, LeaseSink& sink) {
  constexpr std::uint64_t kAll = std::numeric_limits<std::uint64_t>::max();
  Run run(batch.key, sink);
  while (true) {
    const auto segments = batch.results().in_memory(batch.taken, kAll);
    if (segments->empty()) break;
    batch.taken += ResultLog::visit(*segments, batch.taken, kAll, [&](const ResultRow& row) {
      // The job did not run, or not to its end: it goes back.
      if (row.status == JobStatus::kCancelled) return true;
      if (!row.facts.empty()) {
        if (const JobNews news = last_news(batch, row); !news.empty()) {
          run.end();
          sink.keep_last_news(batch.key, row.index, news);
        }
      }
      run.add(row);
      return true;
    });
    if (const auto place = batch.results().place_of(batch.taken)) {
      batch.discard_rows_before(batch.taken, *place);
      batch.drop_rows_before(batch.taken);
    }
  }
  run.end();
}

JobNews LeaseRunner::last_news(LeaseBatch& batch, const ResultRow& row) {
  JobNews news;
  const auto facts = decode_facts(row.facts);
  if (!facts) return news;
  const LeaseBatch::Told told = batch.told_of(row.index);
  batch.told.erase(row.index);
  if (facts->progress != told.progress) news.progress = facts->progress;
  if (!facts->note.empty() && facts->note != told.note) news.note = std::string(facts->note);
  const std::uint64_t begin = facts->log_end - facts->log.size();
  news.log = facts->log.substr(std::min(std::max(told.log_end, begin), facts->log_end) - begin);
  // The exit status of a job that ended well is 0, which is not worth a command.
  if (row.status != JobStatus::kOk || !news.empty()) news.exit_status = facts->exit_status;
  return news;
}

void LeaseRunner::send_news(LeaseSink& sink) {
  constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();
  std::vector<ShownJobs::View> running;
  // A connection of an earlier offer may still have leases in the lane: the look-up by key skips
  // them.
  lane_.running().visit(
      0, kAll, JobNotes::kMostText,
      [](const Batch& batch) { return batch.options().queue_tenant == kTenant; },
      [&](ShownJobs::View view) { running.push_back(std::move(view)); });
  for (const ShownJobs::View& view : running) {
    auto& batch = static_cast<LeaseBatch&>(*view.batch);
    if (find(batch.key) != &batch) continue;
    const LeaseBatch::Told told = batch.told_of(view.index);
    JobNews news;
    if (view.progress != told.progress) news.progress = view.progress;
    if (!view.note.empty() && view.note != told.note) news.note = view.note;
    LeaseBatch::Told now_told{.progress = view.progress, .note = view.note, .log_end = told.log_end};
    if (view.log_end > told.log_end) {
      auto log = lane_.running().read_log(batch, view.index, told.log_end);
      if (log) {
        news.log = std::move(log->bytes);
        now_told.log_end = log->end;
      }
    }
    if (!news.empty() && sink.try_send_news(batch.key, view.index, news))
      batch.told[view.index] = std::move(now_told);
  }
}

void LeaseRunner::abandon() {
  for (const auto& [key, batch] : std::exchange(leases_, {})) lane_.cancel(*batch, "the daemon ends");
}

}  // namespace locksley::daemon

// Failed jobs of a batch: automatic retries, and the attempts of jobs that a command queues again.
#include <utility>

#include "core/base/index_ranges.h"
#include "core/batch/batch.h"
#include "core/batch/job_facts.h"

namespace locksley {
namespace {

// The failed jobs of some rows, in the order of completion, and the notes that they have left.
struct FailedRows {
  std::vector<IndexRange> jobs;
  std::vector<NotedJob> notes;
};
FailedRows find_failed(std::span<const std::byte> rows, std::uint64_t row_count) {
  FailedRows found;
  for_each_row(rows, row_count, [&](const ResultHead& head, std::span<const std::byte> row) {
    if (!is_failure(head.status)) return;
    append_range(found.jobs, {head.index, head.index + 1});
    if (head.has_facts == 0) return;
    const auto facts = decode_facts(head.row(head.text_in(row)).facts);
    if (facts && !facts->note.empty()) found.notes.push_back({head.index, std::string(facts->note)});
  });
  return found;
}

// The rows without those of the jobs that are retried, `again`; into `kept`, which has room for
// all. Takes these jobs from the counts in `ended`.
struct KeptRows {
  std::vector<std::byte> bytes;
  std::uint64_t count = 0;
};
void drop_retried(std::span<const std::byte> rows, std::uint64_t row_count, std::span<const IndexRange> again,
                  EndedJobs& ended, KeptRows& kept) {
  for_each_row(rows, row_count, [&](const ResultHead& head, std::span<const std::byte> row) {
    if (is_failure(head.status) && contains(again, head.index)) {
      --ended.by_status[static_cast<std::size_t>(head.status)];
    } else {
      kept.bytes.insert(kept.bytes.end(), row.begin(), row.end());
      ++kept.count;
    }
  });
}

// `all`: what was prepared for all rows, for which `log` has room. Without memory for the kept
// rows, these take its chunk.
ResultLog::Prepared prepare_kept(ResultLog::Prepared all, const KeptRows& kept, ResultLog& log) {
  try {
    auto prepared = ResultLog::prepare(kept.bytes, kept.count, true);
    log.make_room(prepared);
    return prepared;
  } catch (const NoMemoryForRows&) {
    std::memcpy(all.chunk->bytes.get(), kept.bytes.data(), kept.bytes.size());
    all.bytes = kept.bytes;
    all.rows = kept.count;
    return all;
  }
}

}  // namespace

Retries& Batch::retries() {
  if (retries_ == nullptr) {
    retries_ = std::make_unique<Retries>(static_cast<std::uint64_t>(steady_now().count()) ^
                                         reinterpret_cast<std::uintptr_t>(this));
    // [batch-retries] relaxed: as in attempt().
    has_retries_.store(true, std::memory_order_relaxed);
  }
  return *retries_;
}

std::uint32_t Batch::attempt(std::uint64_t index) const {
  // [batch-retries] relaxed: it was set before the job was queued again, and the ring's mutex
  // orders that before the executor's claim.
  if (!has_retries_.load(std::memory_order_relaxed)) return attempt_;
  const MutexLock lock(mutex_);
  return attempt_ + retries_->of(index).failed;
}

IndexRange Batch::same_attempt(IndexRange jobs) const {
  // [batch-retries] relaxed: as in attempt().
  if (!has_retries_.load(std::memory_order_relaxed)) return jobs;
  const MutexLock lock(mutex_);
  return retries_->alike(jobs);
}

std::uint64_t Batch::failure_bytes() const {
  // [batch-over] relaxed: written under the mutex that is held. Once it is over, the queue leaves
  // the ring, and frees its ranges.
  const bool is_over = over_.load(std::memory_order_relaxed);
  return failed_.memory_bytes() + (retries_ != nullptr ? retries_->memory_bytes() : 0) +
         (notes_ != nullptr ? notes_->bytes() : 0) + (is_over ? 0 : ring_queue_.memory_bytes());
}

bool Batch::publish_failures(const EndedJobs& ended, std::span<const std::byte> rows, std::uint64_t row_count,
                             std::vector<IndexRange> indexes, OnFailure on_failure, const Ran* ran) {
  const bool has_rows = options_.keep != Keep::kNone;
  std::vector<std::byte> more;
  FailedRows failed;
  ResultLog::Prepared prepared;  // what is published if no job is retried
  KeptRows kept;                 // until what is prepared of it is published
  try {
    if (ran != nullptr) rows = more = with_facts(rows, row_count, *ran);
    failed = find_failed(rows, row_count);
    prepared =
        ResultLog::prepare(has_rows ? rows : std::span<const std::byte>(), has_rows ? row_count : 0, true);
    if (options_.retries != 0) kept.bytes.reserve(rows.size());
  } catch (const std::bad_alloc&) {
    throw NoMemoryForRows();
  }
  Publication publication{.ended = ended, .indexes = std::move(indexes), .failed = {}, .job_attempts = {}};
  bool too_many_failures = false;
  std::vector<IndexRange> again;
  {
    const MutexLock lock(mutex_);
    log_.make_room(prepared);  // before the first change
    for (NotedJob& each : failed.notes) {
      if (!notes().set(each.index, each.text)) each.text.clear();  // the store drops the one before, too
      publication.notes.push_back(std::move(each));
    }
    if (options_.retries == 0 || cancelled_ || on_failure == OnFailure::kNoRetries) {
      publication.failed = std::move(failed.jobs);
    } else {
      again = schedule_retries(failed.jobs, publication);
    }
    if (!again.empty()) {
      publication.indexes = difference(sorted(std::move(publication.indexes)), again);
      drop_retried(rows, row_count, again, publication.ended, kept);
      prepared = has_rows ? prepare_kept(std::move(prepared), kept, log_) : ResultLog::Prepared{};
    }
    too_many_failures = publish_locked(std::move(publication), std::move(prepared));
  }
  if (!again.empty()) report_attempts(rows, row_count, again);
  notify_observer();
  return too_many_failures;
}

void Batch::report_attempts(std::span<const std::byte> rows, std::uint64_t row_count,
                            std::span<const IndexRange> again) {
  if (observer_ == nullptr) return;
  for_each_row(rows, row_count, [&](const ResultHead& head, std::span<const std::byte> row) {
    if (!is_failure(head.status) || !contains(again, head.index)) return;
    observer_->attempt_failed(*this, head.index, head.status, head.row(head.text_in(row)).output);
  });
}

std::vector<IndexRange> Batch::schedule_retries(std::span<const IndexRange> failed,
                                                Publication& publication) {
  std::vector<IndexRange> again;
  std::vector<JobAttempts> job_attempts;
  for (const IndexRange& range : failed) {
    const auto judge = [&](IndexRange jobs, Attempts attempts) {
      if (attempts.failed - attempts.forgiven >= options_.retries) {
        append_range(publication.failed, jobs);
      } else {
        ++attempts.failed;
        job_attempts.push_back({jobs, attempts});
      }
    };
    if (retries_ == nullptr) {
      judge(range, Attempts{});
    } else {
      retries_->visit(range, judge);
    }
  }
  if (job_attempts.empty()) return again;
  const Nanoseconds now = steady_now();
  for (const JobAttempts& jobs : job_attempts) {
    retries().set(jobs.jobs, jobs.attempts);
    retries().schedule(jobs, now);
    again.push_back(jobs.jobs);
  }
  again = sorted(std::move(again));
  retried_ += count_of(again);
  publication.job_attempts = std::move(job_attempts);
  return again;
}

void Batch::forget_attempts(const Publication& publication) {
  const auto forget = [this](std::span<const IndexRange> jobs) LOCKSLEY_REQUIRES(mutex_) {
    for (const IndexRange& range : jobs) {
      if (retries_ != nullptr) retries_->forget(range);
      if (notes_ != nullptr) notes_->forget(range);
    }
  };
  if (publication.failed.empty()) return forget(publication.indexes);
  forget(difference(sorted(publication.indexes), sorted(publication.failed)));
}

std::vector<IndexRange> Batch::take_due_retries(Nanoseconds now, std::size_t most) {
  const MutexLock lock(mutex_);
  return retries_ == nullptr ? std::vector<IndexRange>() : retries_->take_due(now, most);
}

void Batch::forgive(IndexRange jobs, std::vector<JobAttempts>& next) {
  std::vector<JobAttempts> parts;
  retries().visit(jobs, [&](IndexRange part, Attempts attempts) {
    ++attempts.failed;
    parts.push_back({part, {attempts.failed, attempts.failed}});
  });
  for (const JobAttempts& each : parts) {
    retries_->set(each.jobs, each.attempts);
    if (!next.empty() && next.back().jobs.high == each.jobs.low && next.back().attempts == each.attempts) {
      next.back().jobs.high = each.jobs.high;
    } else {
      next.push_back(each);
    }
  }
}

}  // namespace locksley

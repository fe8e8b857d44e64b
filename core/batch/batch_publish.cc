// The publication of jobs that have ended: their counts, their rows, and which failed jobs are
// retried.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "core/base/index_ranges.h"
#include "core/batch/batch.h"
#include "core/batch/batch_attempts.h"
#include "core/batch/handler.h"
#include "core/batch/job_facts.h"

namespace locksley {
namespace {

// The failed jobs of some rows, in the order of completion, and the notes that they have left.
struct FailedRows {
  std::vector<IndexRange> jobs;
  std::vector<NotedJob> notes;
};
FailedRows find_failed(const EncodedRows& rows) {
  FailedRows found;
  for_each_row(rows, [&](const ResultHead& head, std::span<const std::byte> row) {
    if (!is_failure(head.status)) return;
    append_range(found.jobs, {head.index, head.index + 1});
    if (head.has_facts == 0) return;
    const auto facts = decode_facts(head.row(head.text_in(row)).facts);
    if (facts && !facts->note.empty()) found.notes.push_back({head.index, std::string(facts->note)});
  });
  return found;
}

// The rows without those of the jobs that are retried, `again`; in `kept`, which is empty and has
// room for all. Takes these jobs from the counts in `ended`.
EncodedRows drop_retried(const EncodedRows& rows, std::span<const IndexRange> again, EndedJobs& ended,
                         std::vector<std::byte>& kept) {
  std::uint64_t count = 0;
  for_each_row(rows, [&](const ResultHead& head, std::span<const std::byte> row) {
    if (is_failure(head.status) && contains(again, head.index)) {
      --ended.by_status[static_cast<std::size_t>(head.status)];
    } else {
      kept.insert(kept.end(), row.begin(), row.end());
      ++count;
    }
  });
  return {kept, count};
}

// `all`: what was prepared for all rows, for which `log` has room. If there is no memory for the
// kept rows, they use the chunk of `all`.
ResultLog::Prepared prepare_kept(ResultLog::Prepared all, const EncodedRows& kept, ResultLog& log) {
  try {
    auto prepared = ResultLog::prepare(kept, ResultLog::OtherRows::kPossible);
    log.reserve(prepared);
    return prepared;
  } catch (const NoMemoryForRows&) {
    std::memcpy(all.chunk->bytes.get(), kept.bytes.data(), kept.bytes.size());
    all.rows = kept;
    return all;
  }
}

// The same rows, in which failed jobs have facts.
std::vector<std::byte> with_facts(const Batch& batch, const EncodedRows& rows, const Batch::Ran& ran) {
  const Nanoseconds took = std::max(steady_now() - ran.began, Nanoseconds{0});
  const Batch::Attempts attempts = batch.attempts();
  JobFacts facts;
  facts.duration_us = std::chrono::duration_cast<std::chrono::microseconds>(took).count();
  facts.started_at = unix_milliseconds() - facts.duration_us / 1000;
  facts.worker = ran.worker;
  std::vector<std::byte> result;
  std::string encoded;
  for_each_row(rows, [&](ResultHead head, std::span<const std::byte> row) {
    encoded.clear();
    if (is_failure(head.status) && head.has_facts == 0) {
      facts.attempt = attempts.of(head.index);
      encode(facts, encoded);
      ResultHead::append_facts_length(encoded);
    }
    const std::size_t output = head.length;
    if (encoded.empty() || output > ResultHead::kLongest - encoded.size()) {  // no facts, or no room for them
      result.insert(result.end(), row.begin(), row.end());
      return;
    }
    const std::size_t begin = result.size();
    head.length += static_cast<std::uint32_t>(encoded.size());
    head.has_facts = 1;
    result.resize(begin + ResultHead::bytes_of(head.length));
    std::memcpy(result.data() + begin, &head, sizeof head);
    std::memcpy(result.data() + begin + sizeof head, row.data() + sizeof head, output);
    std::memcpy(result.data() + begin + sizeof head + output, encoded.data(), encoded.size());
  });
  return result;
}

}  // namespace

bool Batch::publish(Publishing jobs) {
  if (jobs.ended.failed() != 0) return publish_failures(std::move(jobs));
  if (options_.keep == Keep::kNone) jobs.rows = {};
  bool too_many_failures = false;
  {
    const bool has_cancelled = jobs.ended.count(JobStatus::kCancelled) != 0;
    auto prepared = ResultLog::prepare(
        jobs.rows, has_cancelled ? ResultLog::OtherRows::kPossible : ResultLog::OtherRows::kNone);
    const MutexLock lock(mutex_);
    too_many_failures = publish_locked(
        {.ended = jobs.ended, .indexes = std::move(jobs.indexes), .failed = {}, .job_attempts = {}},
        std::move(prepared));
  }
  notify_observer();
  return too_many_failures;
}

bool Batch::publish_failures(Publishing jobs) {
  const bool has_rows = options_.keep != Keep::kNone;
  EncodedRows rows = jobs.rows;
  std::vector<std::byte> more;
  FailedRows failed;
  ResultLog::Prepared prepared;  // published if no job is retried
  std::vector<std::byte> kept;   // until the rows prepared from it are published
  try {
    if (!jobs.ran.worker.empty()) rows.bytes = more = with_facts(*this, rows, jobs.ran);
    failed = find_failed(rows);
    prepared = ResultLog::prepare(has_rows ? rows : EncodedRows{}, ResultLog::OtherRows::kPossible);
    if (options_.retries != 0) kept.reserve(rows.bytes.size());
  } catch (const std::bad_alloc&) {
    throw NoMemoryForRows();
  }
  Publication publication{
      .ended = jobs.ended, .indexes = std::move(jobs.indexes), .failed = {}, .job_attempts = {}};
  bool too_many_failures = false;
  std::vector<IndexRange> again;
  {
    const MutexLock lock(mutex_);
    log_.reserve(prepared);  // before the first change
    for (NotedJob& each : failed.notes) {
      // Without room for the note, the store drops the note before, too.
      if (!next_attempts_.set_note(each.index, each.text)) each.text.clear();
      publication.notes.push_back(std::move(each));
    }
    if (options_.retries == 0 || cancelled_ || jobs.on_failure == OnFailure::kNoRetries) {
      publication.failed = std::move(failed.jobs);
    } else {
      NextAttempts::Judged judged = next_attempts_.judge(failed.jobs, options_.retries);
      again = std::move(judged.again);
      retried_ += count_of(again);
      publication.job_attempts = std::move(judged.next);
      publication.failed = std::move(judged.failed);
    }
    if (!again.empty()) {
      publication.indexes = difference(sorted(std::move(publication.indexes)), again);
      const EncodedRows left = drop_retried(rows, again, publication.ended, kept);
      prepared = has_rows ? prepare_kept(std::move(prepared), left, log_) : ResultLog::Prepared{};
    }
    too_many_failures = publish_locked(std::move(publication), std::move(prepared));
  }
  if (!again.empty()) report_attempts(rows, again);
  notify_observer();
  return too_many_failures;
}

bool Batch::publish_locked(Publication publication, ResultLog::Prepared prepared) {
  log_.reserve(prepared);
  for (std::size_t i = 0; i < kJobStatuses; ++i) {
    const std::uint64_t count = publication.ended.by_status[i];
    ended_.by_status[i] += count;
    if (count != 0) handler_.stats.add_jobs(static_cast<JobStatus>(i), count);
  }
  if (!publication.failed.empty()) failed_.add(publication.failed);
  next_attempts_.jobs_ended(publication.indexes, publication.failed);
  ResultLog::Rows rows = log_.append(std::move(prepared));
  charge_results();
  const bool too_many_failures =
      options_.max_fails != 0 && !cancelled_ && ended_.failed() - failed_.requeued() >= options_.max_fails;
  const bool over = finish_if_over();
  if (journal_ != nullptr) {
    BatchStep step;
    step.ended = std::move(publication.indexes);
    step.failed = std::move(publication.failed);
    step.job_attempts = std::move(publication.job_attempts);
    step.notes = std::move(publication.notes);
    record(std::move(step), std::move(rows));
  }
  if (over) announce_end();
  return too_many_failures;
}

void Batch::report_attempts(const EncodedRows& rows, std::span<const IndexRange> again) {
  if (observer_ == nullptr) return;
  for_each_row(rows, [&](const ResultHead& head, std::span<const std::byte> row) {
    if (!is_failure(head.status) || !contains(again, head.index)) return;
    observer_->attempt_failed(*this, head.index, head.status, head.row(head.text_in(row)).output);
  });
}

}  // namespace locksley

// Notes that jobs leave for their next attempts, and the facts (where, when) that are added to the
// rows of failed jobs.
#include <chrono>
#include <cstring>
#include <string>
#include <utility>

#include "core/batch/batch.h"
#include "core/batch/job_facts.h"

namespace locksley {

JobNotes& Batch::notes() {
  if (notes_ == nullptr) {
    notes_ = std::make_unique<JobNotes>();
    // [batch-notes] relaxed: as in note().
    has_notes_.store(true, std::memory_order_relaxed);
  }
  return *notes_;
}

std::string Batch::note(std::uint64_t index) const {
  // [batch-notes] relaxed: a note of an earlier attempt was made before the job was queued again,
  // and the ring's mutex orders that before the executor's claim.
  if (!has_notes_.load(std::memory_order_relaxed)) return {};
  const MutexLock lock(mutex_);
  const std::string* const found = notes_->find(index);
  return found == nullptr ? std::string() : *found;
}

IndexRange Batch::alone_with_note(IndexRange jobs) const {
  // [batch-notes] relaxed: as in note().
  if (!has_notes_.load(std::memory_order_relaxed)) return jobs;
  const MutexLock lock(mutex_);
  return notes_->alone(jobs);
}

bool Batch::set_note(std::uint64_t index, std::string_view text) {
  const MutexLock lock(mutex_);
  // [batch-over] relaxed: written under the mutex that is held.
  if (over_.load(std::memory_order_relaxed)) return true;
  const bool is_kept = notes().set(index, text);
  charge_results();
  if (journal_ == nullptr) return is_kept;
  BatchStep step;
  step.notes.push_back({index, is_kept ? std::string(text.substr(0, JobNotes::kMostText)) : std::string()});
  record(std::move(step), {});
  return is_kept;
}

std::vector<std::byte> Batch::with_facts(std::span<const std::byte> rows, std::uint64_t row_count,
                                         const Ran& ran) const {
  const Nanoseconds took = std::max(steady_now() - ran.began, Nanoseconds{0});
  JobFacts facts;
  facts.duration_us = std::chrono::duration_cast<std::chrono::microseconds>(took).count();
  facts.started_at = unix_milliseconds() - facts.duration_us / 1000;
  facts.worker = ran.worker;
  std::vector<std::byte> result;
  std::string encoded;
  for_each_row(rows, row_count, [&](ResultHead head, std::span<const std::byte> row) {
    encoded.clear();
    if (is_failure(head.status) && head.has_facts == 0) {
      facts.attempt = attempt(head.index);
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

}  // namespace locksley

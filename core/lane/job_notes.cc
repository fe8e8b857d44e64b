#include "core/lane/job_notes.h"

#include <iterator>

namespace locksley {

bool JobNotes::set(Batch& batch, std::uint64_t index, std::string_view text) {
  forget(batch, {index, index + 1});
  if (bytes_ + text.size() + kEach > most_bytes_) drop_ended();
  if (bytes_ + text.size() + kEach > most_bytes_) return false;
  batches_[batch.weak_from_this()].emplace(index, text);
  bytes_ += text.size() + kEach;
  return true;
}

const JobNotes::Jobs* JobNotes::jobs_of(const Batch& batch) const {
  if (batches_.empty()) return nullptr;
  const auto found = batches_.find(batch.weak_from_this());
  return found == batches_.end() ? nullptr : &found->second;
}

const std::string* JobNotes::find(const Batch& batch, std::uint64_t index) const {
  const Jobs* const jobs = jobs_of(batch);
  if (jobs == nullptr) return nullptr;
  const auto found = jobs->find(index);
  return found == jobs->end() ? nullptr : &found->second;
}

IndexRange JobNotes::alone(const Batch& batch, IndexRange jobs) const {
  const Jobs* const noted = jobs_of(batch);
  if (noted == nullptr) return jobs;
  const auto first = noted->lower_bound(jobs.low);
  if (first == noted->end() || first->first >= jobs.high) return jobs;
  return {jobs.low, first->first == jobs.low ? jobs.low + 1 : first->first};
}

void JobNotes::forget(const Batch& batch, IndexRange jobs) {
  if (batches_.empty()) return;
  const auto found = batches_.find(batch.weak_from_this());
  if (found == batches_.end()) return;
  Jobs& noted = found->second;
  for (auto at = noted.lower_bound(jobs.low); at != noted.end() && at->first < jobs.high;
       at = noted.erase(at))
    bytes_ -= at->second.size() + kEach;
  if (noted.empty()) batches_.erase(found);
}

void JobNotes::drop_ended() {
  for (auto at = batches_.begin(); at != batches_.end();) {
    const std::shared_ptr<const Batch> batch = at->first.lock();
    if (batch != nullptr && !batch->is_over()) {
      ++at;
      continue;
    }
    for (const auto& [index, text] : at->second) bytes_ -= text.size() + kEach;
    at = batches_.erase(at);
  }
}

}  // namespace locksley

#include "core/batch/job_notes.h"

namespace locksley {

bool JobNotes::set(std::uint64_t index, std::string_view text) {
  forget({index, index + 1});
  text = text.substr(0, kMostText);
  if (text.empty()) return true;
  if (bytes_ + text.size() + kEach > kMostBytes) return false;
  notes_.emplace(index, text);
  bytes_ += text.size() + kEach;
  return true;
}

const std::string* JobNotes::find(std::uint64_t index) const {
  const auto found = notes_.find(index);
  return found == notes_.end() ? nullptr : &found->second;
}

IndexRange JobNotes::leasable_together(IndexRange jobs) const {
  const auto first = notes_.lower_bound(jobs.low);
  if (first == notes_.end() || first->first >= jobs.high) return jobs;
  return {jobs.low, first->first == jobs.low ? jobs.low + 1 : first->first};
}

void JobNotes::forget(IndexRange jobs) {
  for (auto at = notes_.lower_bound(jobs.low); at != notes_.end() && at->first < jobs.high;
       at = notes_.erase(at)) {
    bytes_ -= at->second.size() + kEach;
  }
}

std::vector<NotedJob> JobNotes::all() const {
  std::vector<NotedJob> all;
  all.reserve(notes_.size());
  for (const auto& [index, text] : notes_) all.push_back({index, text});
  return all;
}

}  // namespace locksley

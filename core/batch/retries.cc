#include "core/batch/retries.h"

#include <algorithm>
#include <chrono>

#include "core/base/index_ranges.h"

namespace locksley {
namespace {

constexpr Nanoseconds kFirstDelay = std::chrono::milliseconds(100);
constexpr Nanoseconds kLongestDelay = std::chrono::minutes(5);

// splitmix64: Guy L. Steele Jr., Doug Lea and Christine H. Flood, "Fast Splittable Pseudorandom
// Number Generators", OOPSLA 2014.
std::uint64_t next_random(std::uint64_t& state) {
  std::uint64_t z = state += 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

}  // namespace

Nanoseconds retry_delay(std::uint32_t failures, std::uint64_t random) {
  constexpr std::uint32_t kMostDoublings = 12;  // enough to reach the longest
  const std::uint32_t doublings = std::min(std::max(failures, 1U) - 1, kMostDoublings);
  const Nanoseconds longest = std::min(kFirstDelay * (std::int64_t{1} << doublings), kLongestDelay);
  return Nanoseconds(static_cast<std::int64_t>(random % (static_cast<std::uint64_t>(longest.count()) + 1)));
}

AttemptCounts Retries::of(std::uint64_t index) const {
  const auto after = parts_.upper_bound(index);
  if (after == parts_.begin()) return {};
  const Part& part = std::prev(after)->second;
  return index < part.high ? part.attempts : AttemptCounts{};
}

IndexRange Retries::with_equal_attempts(IndexRange jobs) const {
  const std::uint32_t failed = of(jobs.low).failed;
  IndexRange result{jobs.low, jobs.low};
  visit(jobs, [&](IndexRange part, AttemptCounts attempts) {
    if (part.low == result.high && attempts.failed == failed) result.high = part.high;
  });
  return result;
}

std::map<std::uint64_t, Retries::Part>::iterator Retries::cut(IndexRange jobs) {
  auto at = parts_.lower_bound(jobs.low);
  if (at != parts_.begin()) {
    const auto before = std::prev(at);
    const Part old = before->second;
    if (old.high > jobs.low) {
      before->second.high = jobs.low;
      if (old.high > jobs.high) at = parts_.emplace(jobs.high, old).first;
    }
  }
  while (at != parts_.end() && at->first < jobs.high) {
    const Part old = at->second;
    at = parts_.erase(at);
    if (old.high > jobs.high) at = parts_.emplace(jobs.high, old).first;
  }
  return at;
}

void Retries::forget(IndexRange jobs) {
  if (!jobs.empty() && !parts_.empty()) cut(jobs);
}

std::vector<JobAttempts> Retries::all() const {
  std::vector<JobAttempts> all;
  all.reserve(parts_.size());
  for (const auto& [low, part] : parts_) all.push_back({{low, part.high}, part.attempts});
  return all;
}

void Retries::set(IndexRange jobs, AttemptCounts attempts) {
  if (jobs.empty()) return;
  cut(jobs);
  auto at = parts_.emplace(jobs.low, Part{jobs.high, attempts}).first;
  // Merges it with neighbours that have the same attempts.
  if (const auto next = std::next(at);
      next != parts_.end() && next->first == at->second.high && next->second.attempts == attempts) {
    at->second.high = next->second.high;
    parts_.erase(next);
  }
  if (at == parts_.begin()) return;
  if (const auto before = std::prev(at);
      before->second.high == at->first && before->second.attempts == attempts) {
    before->second.high = at->second.high;
    parts_.erase(at);
  }
}

void Retries::schedule(const JobAttempts& jobs, Nanoseconds now) {
  const std::uint32_t failures = jobs.attempts.failed - jobs.attempts.forgiven;
  waiting_.emplace(now + retry_delay(failures, next_random(random_)), jobs.jobs);
  waiting_jobs_ += jobs.jobs.size();
}

std::vector<IndexRange> Retries::take_due(Nanoseconds now, std::size_t most) {
  std::vector<IndexRange> due;
  while (!waiting_.empty() && waiting_.begin()->first <= now && due.size() < most) {
    due.push_back(waiting_.begin()->second);
    waiting_jobs_ -= due.back().size();
    waiting_.erase(waiting_.begin());
  }
  return sorted(std::move(due));
}

std::uint64_t Retries::memory_bytes() const {
  // A node of a tree: its contents, and 40 bytes.
  constexpr std::size_t kNodeBytes = 40 + sizeof(std::uint64_t) + sizeof(Part);
  return sizeof(*this) + (parts_.size() + waiting_.size()) * kNodeBytes;
}

}  // namespace locksley

// The running jobs that clients watch for news.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>

#include "core/batch/batch.h"

namespace locksley {

// A job, by its place. The batch outlives it.
struct WatchedJob {
  const Batch* batch = nullptr;
  std::uint64_t index = 0;
  friend auto operator<=>(const WatchedJob&, const WatchedJob&) = default;
};

// The jobs that are watched, each with the number of its watches. All watches of a job have one
// entry and end together, with the next news of it. So each call costs O(log n) in the number of
// watched jobs, however many watch one of them. A tree and not a hash table: a client could choose
// jobs whose hashes collide, and a table that grows moves all entries at once.
//
// A member of ShownJobs, whose mutex guards it. Nothing blocks; only allocation fails. `Before`
// orders jobs; it is a parameter so that a test can count the comparisons.
template <class Before = std::less<>>
class JobWatches {
 public:
  // One watch of a job, from add() until remove(). The batch outlives it.
  struct Watch {
    WatchedJob job;
    std::uint64_t number = 0;
  };

  Watch add(const WatchedJob& job) {
    const auto [place, is_new] = jobs_.try_emplace(job);
    Entry& entry = place->second;
    if (is_new) entry.number = ++last_number_;
    ++entry.watches;
    return {job, entry.number};
  }
  // Once for each add(). No effect on watches that have ended.
  void remove(const Watch& watch) {
    const auto found = jobs_.find(watch.job);
    if (found == jobs_.end() || found->second.number != watch.number) return;
    if (--found->second.watches == 0) jobs_.erase(found);
  }
  // False: there was news of the job since add().
  bool lasts(const Watch& watch) const {
    const auto found = jobs_.find(watch.job);
    return found != jobs_.end() && found->second.number == watch.number;
  }
  // Ends all watches of the job, since there is news of it. False: it has none.
  bool end_those_of(const WatchedJob& job) { return jobs_.erase(job) != 0; }

 private:
  struct Entry {
    std::uint64_t number = 0;  // identifies the present watches; changes with the next news of the job
    std::size_t watches = 0;
  };
  std::map<WatchedJob, Entry, Before> jobs_;
  std::uint64_t last_number_ = 0;
};

}  // namespace locksley

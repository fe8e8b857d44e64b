// How many jobs of a batch end in a second.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>

#include "daemon/base/time.h"

namespace locksley::daemon {

// Measures how many jobs of a batch end in a second: over the last 2.5 to 5 s; over less time at
// first; if jobs are longer, over the time between two ends. Time in which the batch has nothing to
// run does not count. A batch stands still if no job of it has ended for 5 s, or for twice the time
// that its jobs needed before, if that is longer: then its earlier rate means nothing.
//
// A part of a BatchRecord; the I/O thread only. Two marks are kept, so a reading costs the same
// whatever happened.
class RateMeter {
 public:
  enum class Work : std::uint8_t { kNone, kSome };  // none: nothing is left to run, or the batch is paused

  // After a change: `ended` jobs have ended so far.
  void update(Instant at, std::uint64_t ended, Work work) {
    const bool rested = work_ == Work::kNone && at - newer_.at >= kHalfWindow;
    work_ = work;
    // RETRY makes the number of ended jobs smaller.
    if (older_.at == Instant{} || rested || ended < last_ended_) {
      older_ = newer_ = {at, ended};
      last_end_at_ = at;
    } else if (ended > last_ended_) {
      last_end_at_ = at;
      if (at - newer_.at >= kHalfWindow) {
        older_ = newer_;
        newer_ = {at, ended};
      }
    }
    last_ended_ = ended;
  }

  // None: too little has happened, or the batch stands still.
  std::optional<double> per_second(Instant at, std::uint64_t ended) const {
    if (older_.at == Instant{} || ended <= older_.ended || at - older_.at < kLeast) return std::nullopt;
    if (work_ == Work::kNone && at - newer_.at >= 2 * kHalfWindow) return std::nullopt;
    if (silence(at, ended) > 2 * std::max<Instant::duration>(kHalfWindow, newer_.at - older_.at))
      return std::nullopt;
    return static_cast<double>(ended - older_.ended) / std::chrono::duration<double>(at - older_.at).count();
  }

  // How long no job has ended; at most the time since the first update(), or since the batch had
  // something to run again.
  Instant::duration silence(Instant at, std::uint64_t ended) const {
    const bool is_measured = older_.at != Instant{} && ended <= last_ended_ && at > last_end_at_;
    return is_measured ? at - last_end_at_ : Instant::duration(0);
  }

 private:
  // Guess: a person sees a change after some seconds, and not each hiccup.
  static constexpr std::chrono::milliseconds kHalfWindow{2500};
  // Guess: shorter times measure in which order the first jobs happened to end.
  static constexpr std::chrono::milliseconds kLeast{100};

  struct Mark {
    Instant at{};
    std::uint64_t ended = 0;
  };
  Mark older_;  // a time of 0: there is none yet
  Mark newer_;
  std::uint64_t last_ended_ = 0;
  Instant last_end_at_{};  // when a job had ended, or the marks began anew
  Work work_ = Work::kSome;
};

}  // namespace locksley::daemon

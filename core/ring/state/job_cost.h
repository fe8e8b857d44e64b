// The cost of a job of a queue, as measured by the queue's turns, and how many jobs a claim may
// take.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "core/base/job.h"

namespace locksley {

// The estimate of the cost of one job: worker time in nanoseconds, with that of its sub-jobs. It is
// a decaying mean of the measurements of turns. Claims grow step by step while it is new.
//
// A member of RingQueue, and guarded as it is. A plain value of 32 bytes; nothing blocks or fails.
class JobCost {
 public:
  // False: no job has ended, and there was no hint.
  bool is_known() const { return mean_ > 0; }
  // The cost of one job in nanoseconds, at least 1; 0: unknown.
  double mean() const { return mean_; }

  // The queue enters a ring. `hint`: the expected cost of a job; 0: not given, and the queue keeps
  // the cost that it knows.
  void begin(Nanoseconds hint) {
    without_jobs_ = Nanoseconds{0};
    if (hint.count() <= 0) return;
    mean_ = static_cast<double>(hint.count());
    last_claim_ = std::numeric_limits<std::uint64_t>::max();
  }

  // A turn has used `time`, and `jobs` jobs have ended in it. True: these are the queue's first
  // jobs to end.
  bool learn(Nanoseconds time, std::uint64_t jobs) {
    without_jobs_ += time;
    if (jobs == 0) return false;
    const auto count = static_cast<double>(jobs);
    const double cost = std::max(1.0, static_cast<double>(without_jobs_.count()) / count);
    without_jobs_ = Nanoseconds{0};
    const double before = std::exchange(measured_jobs_, count);
    if (mean_ == 0) {
      mean_ = cost;
      return true;
    }
    // With few jobs, much of the time is overhead of the claim, such as a remote worker's round
    // trip. So a claim of many more jobs than the one before is the better measurement.
    const double gain = before == 0 ? kGain : std::max(kGain, 1 - before / count);
    mean_ += (cost - mean_) * gain;
    return false;
  }

  // A claim is at most so many times as large as the claim before. So one wrong measurement (a step
  // of the clock, a first job that was cached) cannot make a claim take a whole batch, and a few
  // claims reach the right size: 1,000 jobs in five claims. Leases to other machines grow faster,
  // since one costs as much as many short jobs, and can be shortened while it runs.
  static constexpr std::uint64_t kGrowth = 4;
  static constexpr std::uint64_t kLeaseGrowth = 16;

  // How many jobs the next claim of one executor takes, if there are as many: those that are
  // expected to take `quantum`, but at least one, and at most `growth` times as many as the last
  // call returned. Without a known cost, one job.
  std::uint64_t next_claim(Nanoseconds quantum, std::uint64_t growth = kGrowth) {
    std::uint64_t size = 1;
    if (mean_ > 0) {
      size = std::max<std::uint64_t>(
          1, static_cast<std::uint64_t>(static_cast<double>(quantum.count()) / mean_));
    }
    std::uint64_t most = 0;
    if (__builtin_mul_overflow(last_claim_, growth, &most)) most = std::numeric_limits<std::uint64_t>::max();
    last_claim_ = std::min(size, std::max<std::uint64_t>(1, most));
    return last_claim_;
  }

 private:
  // How fast the mean follows the measurements (a guess: after three claims, half of an outlier has
  // decayed).
  static constexpr double kGain = 0.25;

  double mean_ = 0;
  double measured_jobs_ = 0;  // by the last turn that is part of the mean
  // The time of turns in which no job ended: it belongs to the next job that ends.
  Nanoseconds without_jobs_{};
  std::uint64_t last_claim_ = 0;  // in jobs
};

}  // namespace locksley

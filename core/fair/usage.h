// Recent service: a sum that decays exponentially, and one that also counts services which still
// run.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>

#include "core/base/job.h"

namespace locksley {

// A sum that decays with a time constant of about 5 s (a guess: long enough to hide single claims,
// short enough to follow what an operator does). Time advances in steps of kStep (67 ms):
// additions within a step cost no decay, and a decay costs two table look-ups and a product.
//
// A plain value of 16 bytes; the caller synchronises the calls. Nothing fails. A `now` earlier than
// the last one counts as the last one.
class DecayingSum {
 public:
  static constexpr unsigned kStepBits = 26;
  static constexpr Nanoseconds kStep{std::int64_t{1} << kStepBits};
  static constexpr int kStepsPerTimeConstant = 75;
  static constexpr Nanoseconds kTimeConstant = kStep * kStepsPerTimeConstant;

  void add(double amount, Nanoseconds now) {
    decay_to(step_of(now));
    sum_ += amount;
  }

  // What a service that took `length` and ends now contributes to such a sum: `length` itself if it
  // is short, at most kTimeConstant.
  static double spread(Nanoseconds length) {
    const auto ns = static_cast<double>(length.count());
    if (length <= kStep) return ns;
    const auto constant = static_cast<double>(kTimeConstant.count());
    return constant * (1 - std::exp(-ns / constant));
  }

  // What remains at `now` of 1 that was added at `then`.
  static double left_of_one(Nanoseconds then, Nanoseconds now) {
    const std::int64_t steps = step_of(now) - step_of(then);
    return steps > 0 ? factor(steps) : 1;
  }

  double at(Nanoseconds now) const {
    const std::int64_t step = step_of(now);
    return step > step_ ? sum_ * factor(step - step_) : sum_;
  }

 private:
  static constexpr int kFine = 32;
  static constexpr int kCoarse = 64;

  static std::int64_t step_of(Nanoseconds now) { return now.count() >> kStepBits; }

  void decay_to(std::int64_t step) {
    if (step <= step_) return;
    sum_ *= factor(step - step_);
    step_ = step;
  }

  // exp(-steps / kStepsPerTimeConstant); 0 beyond 2,048 steps (27 time constants: 1e-12).
  static double factor(std::int64_t steps) {
    static const Tables tables;
    if (steps >= std::int64_t{kFine} * kCoarse) return 0;
    const auto n = static_cast<std::size_t>(steps);
    return tables.fine[n % kFine] * tables.coarse[n / kFine];
  }

  struct Tables {
    std::array<double, kFine> fine;
    std::array<double, kCoarse> coarse;
    Tables() {
      for (std::size_t i = 0; i < fine.size(); ++i) {
        fine[i] = std::exp(-static_cast<double>(i) / kStepsPerTimeConstant);
      }
      for (std::size_t i = 0; i < coarse.size(); ++i) {
        coarse[i] = std::exp(-static_cast<double>(i) * kFine / kStepsPerTimeConstant);
      }
    }
  };

  double sum_ = 0;
  std::int64_t step_ = 0;
};

// The contribution of one service that has ended to decaying sums. It is the same for the sums of a
// queue and of all above it, so it is computed once for all of them. A plain value; any thread;
// nothing fails.
class EndedService {
 public:
  EndedService(Nanoseconds began, Nanoseconds service, Nanoseconds now)
      : now_(now),
        left_of_begin_(DecayingSum::left_of_one(began, now)),
        amount_(DecayingSum::spread(service)) {}
  // The same for `executors` executors that began and ended at the same times, each with the
  // service `each`.
  EndedService(Nanoseconds began, Nanoseconds each, Nanoseconds now, std::uint32_t executors)
      : EndedService(began, each, now) {
    left_of_begin_ *= executors;
    amount_ *= executors;
  }

 private:
  friend class Usage;
  Nanoseconds now_;
  double left_of_begin_;  // what remains of what Usage::begin() added
  double amount_;
};

// The service that a node, or all nodes together, received recently, by any number of executors,
// and including those that have not settled yet: the sum of all nanoseconds of service, each
// weighted by exp(-age / DecayingSum::kTimeConstant).
// O(1) for any number of executors: a service that has run since b contributes
// kTimeConstant * (1 - exp(-(now - b) / kTimeConstant)), and the sum of these exponentials is
// itself a decaying sum.
//
// A plain value of 32 bytes; the caller synchronises the calls. Nothing fails.
class Usage {
 public:
  void begin(Nanoseconds now, std::uint32_t executors = 1) { begun_.add(executors, now); }
  void end(const EndedService& service) {
    begun_.add(-service.left_of_begin_, service.now_);
    ended_.add(service.amount_, service.now_);
  }
  // `executors`: how many have begun and not ended, as the caller counts them.
  double recent(std::uint32_t executors, Nanoseconds now) const {
    const double running = std::max(0.0, executors - begun_.at(now));
    return ended_.at(now) + running * static_cast<double>(DecayingSum::kTimeConstant.count());
  }

 private:
  DecayingSum ended_;
  DecayingSum begun_;  // 1 for each executor that has begun; its end subtracts the remaining part
};

}  // namespace locksley

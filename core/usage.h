// Service received lately: a sum that forgets exponentially, and one that knows of services which still run.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>

#include "core/job.h"

namespace locksley {

// A sum whose content decays with a time constant of about 5 s (long enough to hide single claims, short
// enough to follow what an operator does; a guess). Time goes in steps of 2^26 ns (67 ms), so that nothing is
// computed for the additions within a step, and a decay is two table look-ups and a product.
//
// 16 bytes, no thread-safety of its own, no failure. A `now` that lies before the last one counts as the last
// one.
class DecayingSum {
 public:
  static constexpr Nanoseconds kStep{std::int64_t{1} << 26};
  static constexpr int kStepsPerTimeConstant = 75;
  static constexpr Nanoseconds kTimeConstant = kStep * kStepsPerTimeConstant;

  void add(double amount, Nanoseconds now) {
    decay_to(step_of(now));
    sum_ += amount;
  }

  // What a service that took `length` and ends now has left in such a sum: `length` itself if it is short, at
  // most kTimeConstant.
  static double spread(Nanoseconds length) {
    const auto ns = static_cast<double>(length.count());
    if (length <= kStep) return ns;
    const auto constant = static_cast<double>(kTimeConstant.count());
    return constant * (1 - std::exp(-ns / constant));
  }

  // What is left at `now` of 1 that was added at `then`.
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

  static std::int64_t step_of(Nanoseconds now) { return now.count() >> 26; }

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

// Service received lately by something with any number of executors, those included that have not settled
// yet: the sum, over all services, of their nanoseconds, each weighted by exp(-age /
// DecayingSum::kTimeConstant). O(1) whatever the number of executors: a service that has run since b counts
// kTimeConstant * (1 - exp(-(now - b) / kTimeConstant)), and the sum of these exponentials is itself a
// decaying sum.
//
// 32 bytes, no thread-safety of its own, no failure.
class Usage {
 public:
  void begin(Nanoseconds now) { begun_.add(1, now); }
  void end(Nanoseconds began, Nanoseconds service, Nanoseconds now) {
    begun_.add(-DecayingSum::left_of_one(began, now), now);
    ended_.add(DecayingSum::spread(service), now);
  }
  // `executors`: how many have begun and not ended.
  double lately(std::uint32_t executors, Nanoseconds now) const {
    const double running = std::max(0.0, executors - begun_.at(now));
    return ended_.at(now) + running * static_cast<double>(DecayingSum::kTimeConstant.count());
  }

 private:
  DecayingSum ended_;
  DecayingSum begun_;  // 1 for each that has begun; what is left of it is taken out at its end
};

}  // namespace locksley

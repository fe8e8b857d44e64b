// The service that was due to a tenant or a customer recently, while it had jobs to run. Views
// compare it with the service that the tenant or customer received.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/base/job.h"
#include "core/fair/usage.h"

namespace locksley {

// The service of a lane at one moment, as sums that decay (DecayingSum).
struct ServiceReading {
  double lane = 0;        // all service
  double shared = 0;      // the part of `lane` that is shared out: all of it, or one tenant's due part
  double per_weight = 0;  // the same, each part divided by the weights that competed for it
  Nanoseconds at{};
};

// Divides the service of a lane among the tenants that compete for it, or the service due to a
// tenant among its customers. A member of the ring, or of the tenant's customers; the ring
// synchronises the calls, and calls advance() before each change of the weights. O(1); nothing
// fails.
class ServiceClock {
 public:
  // The sums at `now`, if weights with the sum `weight` have competed since the last advance().
  // `lane`: Usage::recent() of the lane. `shared`: as in ServiceReading.
  ServiceReading read(double lane, double shared, std::uint64_t weight, Nanoseconds now) const {
    ServiceReading reading{
        .lane = lane, .shared = shared, .per_weight = per_weight_.at(now), .at = std::max(now, last_.at)};
    if (weight != 0) {
      reading.per_weight += std::max(0.0, shared - last_.shared * DecayingSum::left_of_one(last_.at, now)) /
                            static_cast<double>(weight);
    }
    return reading;
  }
  const ServiceReading& advance(double lane, double shared, std::uint64_t weight, Nanoseconds now) {
    const ServiceReading reading = read(lane, shared, weight, now);
    per_weight_.add(reading.per_weight - per_weight_.at(now), now);
    return last_ = reading;
  }

 private:
  DecayingSum per_weight_;
  ServiceReading last_;
};

// The recent service of the lane, and the part of it that was due to one tenant or customer. Both
// sums count only the time in which that group had jobs to run. A member of the group, guarded as
// the group is. O(1); nothing fails.
class DueService {
 public:
  struct Sums {
    double lane = 0;  // nanoseconds of service
    double due = 0;   // the part of `lane` that is due to the group
  };

  void begin(const ServiceReading& reading) {
    since_ = reading;
    is_due_ = true;
  }
  void end(const ServiceReading& reading, std::uint32_t weight) {
    const Sums last = since_begin(reading, weight);
    lane_.add(last.lane, reading.at);
    due_.add(last.due, reading.at);
    since_ = reading;
    is_due_ = false;
  }
  // The same as at().due, except that it is not set to 0 after a time constant without jobs.
  double due_at(const ServiceReading& reading, std::uint32_t weight) const {
    return due_.at(reading.at) + (is_due_ ? since_begin(reading, weight).due : 0);
  }
  // Both are 0 if the group has had no jobs to run for a time constant.
  Sums at(const ServiceReading& reading, std::uint32_t weight) const {
    if (!is_due_ && reading.at - since_.at > DecayingSum::kTimeConstant) return {};
    const Sums last = is_due_ ? since_begin(reading, weight) : Sums{};
    return {.lane = lane_.at(reading.at) + last.lane, .due = due_.at(reading.at) + last.due};
  }

 private:
  Sums since_begin(const ServiceReading& reading, std::uint32_t weight) const {
    const double left = DecayingSum::left_of_one(since_.at, reading.at);
    return {.lane = std::max(0.0, reading.lane - since_.lane * left),
            .due = std::max(0.0, reading.per_weight - since_.per_weight * left) * weight};
  }

  DecayingSum lane_;
  DecayingSum due_;
  ServiceReading since_;  // the reading of the last begin() or end()
  bool is_due_ = false;
};

}  // namespace locksley

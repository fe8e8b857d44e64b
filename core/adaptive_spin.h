#pragma once

#include <chrono>
#include <thread>

#include "core/job.h"

namespace locksley {

// Whether a thread that waits should look again and again for a while before it sleeps. To sleep and be woken
// costs 10 to 60 us, so where the next piece of work comes sooner than that, as with a client that sends one
// request after another, looking is faster; where it does not, looking is waste. So a thread looks only while
// its waits turn out short, and one whose work comes seldom, or not at all, never does. (After the kernel's
// haltpoll governor.)
//
// Looking is not free for others: the looker gives way after each look, but on a machine where as many
// threads want to run as there are processors, who is woken may still wait for it, a time slice at worst. It
// stops for kCrowdedFor once it has itself waited for the processor.
//
// A member of the thread that waits; that thread only. Nothing fails.
class AdaptiveSpin {
 public:
  // The longest look, and the longest wait that is worth one. A guess: about two sleeps' worth.
  static constexpr Nanoseconds kLongest = std::chrono::microseconds(100);

  // A wait begins. If it `may`, the thread calls `found` until it is true, for as long as is worth while: not
  // at all, perhaps. Lets other threads have the processor in between. Whether it became true.
  template <class Found>
  bool look(bool may, Found found) {
    looked_from_ = steady_now();
    looked_ = may && budget_.count() != 0 && looked_from_ >= crowded_until_;
    if (!looked_) return false;
    for (Nanoseconds now = looked_from_; now - looked_from_ < budget_;) {
      if (found()) return true;
      const Nanoseconds before = now;
      std::this_thread::yield();
      now = steady_now();
      if (now - before > kCrowded) {
        crowded_until_ = now + kCrowdedFor;
        return found();
      }
    }
    return false;
  }

  // After a look() in vain, or none, the thread slept, and now has work.
  void slept() {
    if (looked_) {
      budget_ = budget_ > kLeast ? budget_ / 2 : Nanoseconds(0);
    } else if (steady_now() - looked_from_ <= kLongest) {
      budget_ = kLongest;
    }
  }

 private:
  static constexpr Nanoseconds kLeast = std::chrono::microseconds(20);

  // A yield that takes so long says that others need the processor; and so long nothing is looked for then.
  static constexpr Nanoseconds kCrowded = std::chrono::microseconds(200);
  static constexpr Nanoseconds kCrowdedFor = std::chrono::milliseconds(500);

  Nanoseconds crowded_until_{0};
  Nanoseconds budget_{0};
  Nanoseconds looked_from_{0};
  bool looked_ = false;
};

}  // namespace locksley

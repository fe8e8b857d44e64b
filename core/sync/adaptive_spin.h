// How long a thread keeps looking for work before it parks.
#pragma once

#include <chrono>
#include <thread>

#include "core/base/job.h"

namespace locksley {

// Decides whether a waiting thread should poll for a while before it parks.
//
// To park and be woken costs 10 to 60 us. Polling is faster if work comes sooner than that, as from
// a client that sends one request after another; otherwise it wastes processor time. So a thread
// polls only while its waits turn out to be short. The model is the haltpoll governor of the Linux
// kernel.
//
// Polling costs other threads time. The thread yields the processor after each poll. But if there
// are as many runnable threads as processors, a woken thread may still wait for the polling one,
// for a time slice at worst. So a polling thread that had to wait for the processor itself does not
// poll for kCrowdedFor.
//
// A member of the thread that waits; that thread only. poll() takes about kLongest at most, and a
// time slice of another thread more if the processors are busy. Nothing fails.
class AdaptiveSpin {
 public:
  // The longest time to poll, and the longest wait that is worth polling for. A guess: about twice
  // the cost of parking.
  static constexpr Nanoseconds kLongest = std::chrono::microseconds(100);

  // At the beginning of a wait. If `may`, calls `found` until it returns true, for as long as that
  // is expected to pay (perhaps not at all), and yields the processor in between. Returns whether
  // `found` returned true.
  template <class Found>
  bool poll(bool may, Found found) {
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

  // The thread was parked after poll() returned false, and now has work.
  void parked() {
    if (looked_) {
      budget_ = budget_ > kLeast ? budget_ / 2 : Nanoseconds(0);
    } else if (steady_now() - looked_from_ <= kLongest) {
      budget_ = kLongest;
    }
  }

 private:
  // A budget of at most this is not halved but becomes 0: polling for a shorter time finds little.
  // A guess.
  static constexpr Nanoseconds kLeast = std::chrono::microseconds(20);

  // kCrowded: a yield that takes this long shows that a computing thread needs the processor: such
  // a thread keeps it for a time slice, 3 ms. Threads that serve a request or look for work return
  // it within some 10 us. kCrowdedFor: for how long the thread then does not poll.
  static constexpr Nanoseconds kCrowded = std::chrono::milliseconds(1);
  static constexpr Nanoseconds kCrowdedFor = std::chrono::milliseconds(500);

  Nanoseconds crowded_until_{0};  // until then it does not poll
  Nanoseconds budget_{0};         // how long polling may take; 0: it does not pay
  Nanoseconds looked_from_{0};    // the beginning of the last wait
  bool looked_ = false;           // in that wait
};

}  // namespace locksley

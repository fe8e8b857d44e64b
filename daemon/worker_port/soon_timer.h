// A timer of the link thread that goes off once, however often it is set meanwhile.
#pragma once

#include <utility>

#include "core/base/job.h"
#include "daemon/base/loop/io.h"
#include "daemon/worker_port/link_thread.h"

namespace locksley::daemon {

// Owned by a part of the LinkService. The link thread only. Nothing blocks.
class SoonTimer {
 public:
  explicit SoonTimer(asio::io_context& io) : timer_(io) {}
  SoonTimer(const SoonTimer&) = delete;
  SoonTimer& operator=(const SoonTimer&) = delete;

  // Calls `act` after that time, unless a call is already due. `act` may set the timer again.
  template <class Act>
  void set(Nanoseconds after, Act act) LOCKSLEY_REQUIRES(kLinkThread) {
    if (std::exchange(is_set_, true)) return;
    timer_.expires_after(after);
    timer_.async_wait([this, act = std::move(act)](const asio::error_code& error) {
      if (error) return;
      kLinkThread.assert_held();
      is_set_ = false;
      act();
    });
  }
  // Ends the timer for good.
  void cancel() { timer_.cancel(); }

 private:
  Timer timer_;
  bool is_set_ LOCKSLEY_GUARDED_BY(kLinkThread) = false;
};

}  // namespace locksley::daemon

#include "daemon/server/records/batch_record.h"

#include <algorithm>
#include <utility>

#include "daemon/base/loop/slices.h"
#include "daemon/base/loop/wakeup.h"

namespace locksley::daemon {

void BatchRecord::wake_all(WaitedFor what, Slices& slices) {
  std::size_t left = wake_some(what, waiters.all.size());
  if (left == 0) return;
  auto go_on = [held = shared(), what, left](Instant until) mutable {
    kIoThread.assert_held();
    do {
      left = held->wake_some(what, left);
    } while (left != 0 && now() < until);
    return left == 0;
  };
  slices.add(std::move(go_on), line);
}

std::size_t BatchRecord::wake_some(WaitedFor what, std::size_t left) {
  // From the last to the first: when a waiter leaves, the last waiter, which was checked already,
  // takes its place.
  left = std::min(left, waiters.all.size());
  for (std::size_t woken = 0; woken != kWokenAtOnce && left != 0;) {
    const Waiter& waiter = waiters.all[--left];
    if (waiter.row < what.first || waiter.row > what.last || waiter.who->is_woken) continue;
    waiter.who->is_woken = true;
    waiter.who->wakeup.wake();
    ++woken;
  }
  return left;
}

}  // namespace locksley::daemon

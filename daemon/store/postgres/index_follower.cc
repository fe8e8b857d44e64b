#include "daemon/store/postgres/index_follower.h"

#include <optional>

#include "daemon/base/time.h"

namespace locksley::daemon {

void IndexFollower::run() {
  const MutexLock lock(mutex_);
  while (!is_stopping_) {
    mutex_.unlock();
    following_.catch_up();
    board_.set_followed(following_.batches());
    mutex_.lock();
    if (!is_stopping_) stopped_.wait_until(mutex_, now() + kPeriod);
  }
}

void IndexFollower::stop() {
  if (!thread_.joinable()) return;
  following_.stop();
  {
    const MutexLock lock(mutex_);
    is_stopping_ = true;
  }
  stopped_.notify_all();
  thread_.join();
  board_.set_followed(std::nullopt);
}

}  // namespace locksley::daemon

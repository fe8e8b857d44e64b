#include "daemon/store/postgres/connection_pool.h"

#include <utility>

namespace locksley::daemon {

PgExpected<ConnectionPool::Taken> ConnectionPool::take() {
  {
    const MutexLock lock(mutex_);
    while (!kept_.empty()) {
      Taken taken = std::move(kept_.back());
      kept_.pop_back();
      if (!primary_.is_outdated(*taken) && !taken->is_closed()) return taken;
    }
  }
  return primary_.connect(name_, PrimaryFinder::Look::kFirst);
}

void ConnectionPool::give_back(Taken connection) {
  const MutexLock lock(mutex_);
  if (kept_.size() < kKept) kept_.push_back(std::move(connection));
}

void ConnectionPool::clear() {
  std::vector<Taken> closed;
  const MutexLock lock(mutex_);
  closed.swap(kept_);
}

}  // namespace locksley::daemon

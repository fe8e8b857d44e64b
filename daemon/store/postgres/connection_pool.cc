#include "daemon/store/postgres/connection_pool.h"

#include <utility>

namespace locksley::daemon {
namespace {

// A start sorts the whole index, and works between two rows for as long as it likes.
constexpr auto kSettings = "set idle_in_transaction_session_timeout = 0; set statement_timeout = 0";
constexpr auto kPoolPatience = std::chrono::seconds(5);

}  // namespace

PgExpected<ConnectionPool::Taken> ConnectionPool::take() {
  {
    const MutexLock lock(mutex_);
    while (!kept_.empty()) {
      Taken taken = std::move(kept_.back());
      kept_.pop_back();
      if (!primary_.is_outdated(*taken)) return taken;
    }
  }
  auto opened = primary_.connect(name_, PrimaryFinder::Look::kFirst);
  if (!opened) return opened;
  if (const auto set = (*opened)->run(kSettings, now() + kPoolPatience); !set)
    return std::unexpected(set.error());
  return opened;
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

#include "daemon/store/postgres/connection_pool.h"

#include <utility>

namespace locksley::daemon {

PgExpected<ConnectionPool::Taken> ConnectionPool::take(ReadingConnection which) {
  std::unique_ptr<PgConnection> connection;
  {
    const MutexLock lock(mutex_);
    std::erase_if(kept_, [this](const std::unique_ptr<PgConnection>& kept) {
      return primary_.is_outdated(*kept) || kept->is_closed();
    });
    const std::size_t left = which == ReadingConnection::kOpen ? 0 : 1;
    if (kept_.size() > left) {
      connection = std::move(kept_.back());
      kept_.pop_back();
    }
  }
  if (connection == nullptr && which == ReadingConnection::kOpen) {
    return std::unexpected(
        PgError{{EngineError::Kind::kNotOpen, "no connection to the database is open; retry later"}, ""});
  }
  if (connection == nullptr) {
    auto opened = primary_.connect(name_, PrimaryFinder::Look::kFirst);
    if (!opened) return std::unexpected(opened.error());
    connection = std::move(*opened);
  }
  const MutexLock lock(mutex_);
  if (is_broken_off_) return std::unexpected(PgError::failed("the connection to the database was lost"));
  taken_.push_back(connection.get());
  return Taken(connection.release(), Closer{this});
}

void ConnectionPool::give_back(Taken taken) {
  std::unique_ptr<PgConnection> connection(taken.release());
  const MutexLock lock(mutex_);
  std::erase(taken_, connection.get());
  if (kept_.size() < kKept) kept_.push_back(std::move(connection));
}

void ConnectionPool::close(PgConnection* connection) {
  const std::unique_ptr<PgConnection> closed(connection);
  const MutexLock lock(mutex_);
  std::erase(taken_, connection);
}

void ConnectionPool::break_off() {
  const MutexLock lock(mutex_);
  is_broken_off_ = true;
  for (const PgConnection* const each : taken_) each->break_off();
}

void ConnectionPool::clear() {
  std::vector<std::unique_ptr<PgConnection>> closed;
  const MutexLock lock(mutex_);
  closed.swap(kept_);
  is_broken_off_ = false;
}

}  // namespace locksley::daemon

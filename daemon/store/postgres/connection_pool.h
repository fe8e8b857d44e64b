// Connections for readings. Internal to daemon/store/postgres.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/sync/mutex.h"
#include "daemon/store/engine/engine.h"
#include "daemon/store/postgres/connection.h"
#include "daemon/store/postgres/primary_finder.h"

namespace locksley::daemon {

// Connections that readings take and give back; as many as there are readings at once, of which a
// few are kept.
//
// The last one that is kept is for readings that may not connect (ReadingConnection::kOpen). So
// they find one while other readings use many, once one reading has ended since the last loss of
// the database: a start has several.
//
// A member of the engine. Any thread. take() blocks on the network while it connects, for as long
// as PrimaryFinder says; with kOpen it does not block.
class ConnectionPool {
 public:
  struct Closer {
    ConnectionPool* pool;
    void operator()(PgConnection* connection) const { pool->close(connection); }
  };
  // Not given back: closed.
  using Taken = std::unique_ptr<PgConnection, Closer>;

  ConnectionPool(PrimaryFinder& primary, std::string name) : primary_(primary), name_(std::move(name)) {}

  // kNotOpen: there is none for kOpen.
  PgExpected<Taken> take(ReadingConnection connection) LOCKSLEY_EXCLUDES(mutex_);
  // A connection that is in order and in no transaction.
  void give_back(Taken connection) LOCKSLEY_EXCLUDES(mutex_);
  // From now on, until clear(), readings fail, those that are under way too: they may wait for a
  // server that says nothing.
  void break_off() LOCKSLEY_EXCLUDES(mutex_);
  // Closes those that are kept. Needs: none is taken.
  void clear() LOCKSLEY_EXCLUDES(mutex_);

 private:
  // A start has four copies at once, and a connection for patterns. Later up to nine readings run
  // at once (README.md, "What is different from the disk"); connections above this number are
  // closed when they are given back.
  static constexpr std::size_t kKept = 6;

  void close(PgConnection* connection) LOCKSLEY_EXCLUDES(mutex_);

  PrimaryFinder& primary_;
  const std::string name_;
  Mutex mutex_;
  std::vector<std::unique_ptr<PgConnection>> kept_ LOCKSLEY_GUARDED_BY(mutex_);
  std::vector<const PgConnection*> taken_ LOCKSLEY_GUARDED_BY(mutex_);
  bool is_broken_off_ LOCKSLEY_GUARDED_BY(mutex_) = false;
};

}  // namespace locksley::daemon

// Reads all rows of a kind from PostgreSQL. Internal to daemon/store/postgres. One thread, that of
// the reading.
#pragma once

#include <string>
#include <string_view>

#include "daemon/store/engine/engine.h"
#include "daemon/store/postgres/connection.h"
#include "daemon/store/postgres/connection_pool.h"

namespace locksley::daemon {

// All rows of the index of one kind that has batches in its keys, in the order of their keys: the
// server sorts them, and sends one after the other (COPY), which takes half of the time that pages
// of a cursor take. The rules are those of RowCursor.
class KindCopy final : public RowCursor {
 public:
  // The server begins to work. `pool` outlives this. Before all else call wait_first(), so that
  // several can begin before.
  KindCopy(ConnectionPool& pool, char kind);

  void wait_first();

  bool is_valid() const override { return !row_.empty(); }
  void next() override;
  std::string_view key() const override { return key_; }
  std::string_view value() const override { return value_; }
  EngineDone status() const override { return status_; }

 private:
  // Takes the row apart. False: it is not a row, but the end.
  bool take_apart(std::string_view bytes);
  template <class T>
  bool is_done(const PgExpected<T>& done);

  ConnectionPool& pool_;
  const unsigned char kind_;
  ConnectionPool::Taken connection_;  // null: all rows were read, or it is lost
  EngineDone status_;
  bool is_first_ = true;
  CopiedRow row_;  // empty: there is none
  std::string key_;
  std::string_view value_;  // in row_
};

}  // namespace locksley::daemon

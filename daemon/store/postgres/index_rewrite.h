// Keeps the table of the index from being much larger than its rows. Internal to
// daemon/store/postgres.
#pragma once

#include <chrono>
#include <cstdint>

#include "daemon/base/time.h"
#include "daemon/store/postgres/connection.h"
#include "daemon/store/postgres/shared_generations.h"
#include "daemon/store/postgres/table_upkeep.h"

namespace locksley::daemon {

// Vacuum frees the space of deleted rows, but not while a session is idle in a transaction. Each
// batch leaves about a kilobyte of deleted rows in the index. So once the table is larger than
// twice its live rows by TableSizes::least(), and by a sixteenth of all live bytes, the table is
// truncated and its rows are written anew.
//
// The writer waits meanwhile, so this is done only while the live rows have at most 8 MiB; a larger
// index is left to vacuum.
//
// For one thread.
class IndexRewrite {
 public:
  IndexRewrite(SharedGenerations& generations, TableSizes& sizes, std::int32_t node,
               std::chrono::milliseconds reply)
      : generations_(generations), sizes_(sizes), node_(node), reply_(reply) {}

  // Once. kHasRows: the table is not worth it, or too large, or the writer is busy. A statement
  // that takes longer than `reply` has failed. After an error the connection is of no use.
  PgExpected<Freed> run(PgConnection& connection) LOCKSLEY_EXCLUDES(generations_.mutex);

 private:
  // Whether the table, of which `live` bytes live, is worth the work.
  bool is_wasteful(std::uint64_t live) const;

  SharedGenerations& generations_;
  TableSizes& sizes_;
  const std::int32_t node_;
  const std::chrono::milliseconds reply_;
  std::uint64_t live_ = 0;  // bytes, at the last check
  Instant next_look_{};
};

}  // namespace locksley::daemon

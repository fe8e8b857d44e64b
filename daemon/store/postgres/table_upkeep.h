// Gives the room of deleted payloads and results back. Internal to daemon/store/postgres.
#pragma once

#include <cstdint>

#include "daemon/base/time.h"
#include "daemon/store/postgres/connection.h"
#include "daemon/store/postgres/generations.h"

namespace locksley::daemon {

// What became of an attempt to truncate a table.
enum class Truncated : std::uint8_t {
  kDone,
  kHasRows,
  kLocked,     // a session uses it, such as pg_dump
  kForbidden,  // the daemon's role may not
  kFenced,     // this daemon's row is not alive: nothing was done
};

// The number of bytes in the values of a generation's rows.
PgExpected<std::int64_t> bytes_in(PgConnection& connection, const Generations::Span& span, Instant deadline);

// One transaction of the daemon `node`: the fence; only once that is known to hold, the truncation, because TRUNCATE can
// have no condition; and the span in the database. `moves_rest`: rows that are left go to the table for the rest before;
// else it is not truncated while it has any. Marks the span as ended in `generations`, unless the outcome is an error.
//
// The caller sees to it that this daemon writes no rows meanwhile. Blocks until `deadline`, and the daemon's writer as long,
// by the lock of its row; a table that is in use is waited for for 100 ms. After an error the connection is of no use, and
// if that is lost the table may be truncated or not, or may still become so.
PgExpected<Truncated> truncate(PgConnection& connection, std::int32_t node, const Generations::Span& span,
                               bool moves_rest, Generations& generations, Instant deadline);

// What the database says; for Generations::load(). Needs: the fence of this daemon has held since no other transaction of
// this daemon was under way.
PgExpected<Generations> read_generations(PgConnection& connection, Instant deadline);

}  // namespace locksley::daemon

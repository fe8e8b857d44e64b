// Frees the space of deleted payloads and results. Internal to daemon/store/postgres.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "daemon/base/time.h"
#include "daemon/store/postgres/connection.h"
#include "daemon/store/postgres/generations.h"
#include "daemon/store/postgres/move_planner.h"

namespace locksley::daemon {

// What the tables of the first of these spans hold, or of more of them, until it is `enough`.
// Estimated from some pages of each table, without large values. No value for a table that is
// locked, or takes longer than a second.
PgExpected<std::vector<std::optional<TableBytes>>> bytes_of_first(PgConnection& connection,
                                                                  const std::vector<Generations::Span>& spans,
                                                                  Instant enough, Instant deadline);
// The same for the table of the index.
PgExpected<std::optional<TableBytes>> bytes_of_index(PgConnection& connection, Instant deadline);

// The next step, of at most `most` bytes, or of one batch. Each time it reads the whole table,
// without large values. None: as for bytes_of_index().
PgExpected<std::optional<MoveStep>> next_step(PgConnection& connection, const Generations::Span& span,
                                              std::uint64_t most, Instant deadline);

// The outcome of an attempt to free a table.
enum class Freed : std::uint8_t {
  kDone,       // it was truncated
  kMoved,      // some of its rows have moved, others are left
  kHasRows,    // it was not to be emptied, and is not empty
  kLocked,     // a session uses it, such as pg_dump
  kForbidden,  // the daemon's role may not truncate
  kFenced,     // this daemon's row is not alive: nothing was done
};
// Whether it is for the caller to act on.
constexpr bool is_hindrance(Freed freed) {
  return freed == Freed::kLocked || freed == Freed::kForbidden || freed == Freed::kFenced;
}

// Each of the following is one transaction of the daemon `node`: the fence; only once that is known
// to hold, the truncation, because TRUNCATE can have no condition; and the spans in the database.
// Changes `generations` likewise, unless the outcome is an error.
//
// The caller sees to it that this daemon writes no rows meanwhile, but for truncate_changes().
// Blocks until `deadline`, and the daemon's writer as long, by the lock of its row; a table that is
// in use is waited for for 100 ms. After an error the connection is of no use, and if that is lost
// the transaction may have had its effect or not, or may still have it.

// Truncates the table if all its rows have been deleted.
PgExpected<Freed> truncate_if_empty(PgConnection& connection, std::int32_t node,
                                    const Generations::Span& span, Generations& generations,
                                    Instant deadline);
// Moves rows to the table `target`, as Generations::move(); the last step truncates the table.
// Measures the target before and after.
PgExpected<Freed> move_rows(PgConnection& connection, std::int32_t node, const Generations::Span& span,
                            const MoveStep& step, MovePlanner::Target& target, Generations& generations,
                            Instant deadline);
// Takes the rows of the index, and writes them again once the table is truncated. They are frozen,
// so that a session with an earlier snapshot finds them, as they are now, and not an empty table. A
// statement that takes longer than a second is kLocked. So is a pg_dump that is connected: the
// other tables would be those of its snapshot.
PgExpected<Freed> rewrite_index(PgConnection& connection, std::int32_t node, Instant deadline);
// Truncates a half of locksley_change.
PgExpected<Freed> truncate_changes(PgConnection& connection, std::int32_t node, std::int16_t half,
                                   Instant deadline);

// What the database says; for Generations::load(). Needs: the fence of this daemon has held since
// no other transaction of this daemon was under way.
PgExpected<Generations> read_generations(PgConnection& connection, Instant deadline);

}  // namespace locksley::daemon

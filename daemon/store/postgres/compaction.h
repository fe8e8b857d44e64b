// Keeps the tables of generations from growing much larger than their live rows. Internal to
// daemon/store/postgres.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>

#include "daemon/base/time.h"
#include "daemon/store/postgres/connection.h"
#include "daemon/store/postgres/generations.h"
#include "daemon/store/postgres/move_planner.h"
#include "daemon/store/postgres/shared_generations.h"
#include "daemon/store/postgres/table_upkeep.h"

namespace locksley::daemon {

// Truncates tables whose rows have all been deleted. Of generations that are mostly deleted it
// moves the remaining rows into one table, so that their own tables can be truncated, too. This is
// the cleaner of a log-structured file system (Rosenblum and Ousterhout, "The Design and
// Implementation of a Log-Structured File System", 1992): the fewer live rows, the sooner.
// MovePlanner says which.
//
// For one thread. The writer waits while a transaction of this is under way, which moves 8 MiB, or
// one batch of up to 16 MiB.
class Compaction {
 public:
  struct Limits {
    std::chrono::milliseconds reply;   // a statement that takes longer has failed
    std::chrono::milliseconds moving;  // run() begins no step after this time
    int pauses = 20;  // after a measurement, or a plan that came to nothing: so many times as long as it took
  };

  Compaction(SharedGenerations& generations, const TableSizes& sizes, std::int32_t node, Limits limits)
      : generations_(generations),
        node_(node),
        limits_(limits),
        ways_{Way{MovePlanner(Table::kPayloads, sizes)}, Way{MovePlanner(Table::kResults, sizes)}} {}

  // Runs once. Returns kDone, or the obstacle: kLocked, kForbidden or kFenced. After an error the
  // connection cannot be used any more.
  PgExpected<Freed> run(PgConnection& connection);

 private:
  // How the tables of one kind are compacted.
  struct Way {
    MovePlanner planner;
    Instant next_measurement{};
    Instant next_move{};
  };
  Way& way(Table table) { return ways_[table == Table::kPayloads ? 0 : 1]; }

  PgExpected<void> run(PgConnection& connection, Table table);
  // Moves the rows of one generation, if that is worth it.
  PgExpected<void> compact(PgConnection& connection, Table table);
  // As many tables as it can in kMeasureTime; at least one, if it is time.
  PgExpected<void> measure(PgConnection& connection, const Generations& generations, Way& way);
  // In steps, until all has moved or it is `end`. False: nothing has, because the estimate was
  // wrong, its first batch is too large, it would take too long to find out what to move, no table
  // is free, the writer is busy, or something hinders it.
  PgExpected<bool> move(PgConnection& connection, const Generations& generations, MovePlanner::Move what,
                        Instant end);

  // None: the writer has them, or they are unknown.
  std::optional<Generations> copy() LOCKSLEY_EXCLUDES(generations_.mutex);
  PgExpected<Freed> change(const std::function<PgExpected<Freed>(Generations&)>& change)
      LOCKSLEY_EXCLUDES(generations_.mutex);

  SharedGenerations& generations_;
  const std::int32_t node_;
  const Limits limits_;
  Freed hindrance_ = Freed::kDone;  // else what hinders it
  bool is_writer_busy_ = false;  // the last change was not made, since the writer did not let this go first
  std::array<Way, 2> ways_;
};

}  // namespace locksley::daemon

// Keeps the tables of generations from being much larger than what is live in them. Internal to daemon/store/postgres.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "daemon/base/time.h"
#include "daemon/store/postgres/connection.h"
#include "daemon/store/postgres/generations.h"
#include "daemon/store/postgres/shared_generations.h"
#include "daemon/store/postgres/table_upkeep.h"

namespace locksley::daemon {

// Truncates tables whose rows have all been deleted. Of generations that are mostly deleted it moves the remaining rows into
// one table, so that their own tables can be truncated, too. This is the cleaner of a log-structured file system (Rosenblum and
// Ousterhout, "The Design and Implementation of a Log-Structured File System", 1992): the fewer live rows, the sooner.
//
// For one thread. The writer waits while a transaction of this is under way, which moves 8 MiB, or one batch of up to 16 MiB.
class Compaction {
 public:
  struct Limits {
    std::chrono::milliseconds reply;   // a statement that takes longer has failed
    std::chrono::milliseconds moving;  // run() begins no step after this time
  };

  Compaction(SharedGenerations& generations, const TableSizes& sizes, std::int32_t node, Limits limits)
      : generations_(generations), sizes_(sizes), node_(node), limits_(limits) {}

  // Once. kDone, or what hinders it: kLocked, kForbidden or kFenced. After an error the connection is of no use.
  PgExpected<Freed> run(PgConnection& connection);

 private:
  PgExpected<void> run(PgConnection& connection, Table table);
  // If the tables are larger than their live rows by more than a fifth, or if all are in use: moves the remaining rows of a
  // generation that is at most half live.
  PgExpected<void> compact(PgConnection& connection, Table table);
  struct Move {
    Generations::Span span;
    bool joins = false;    // its rows go to the table of the generation before; else to an empty one
    double live_part = 0;  // of its table
  };
  // What the tables of earlier() hold. Empty: not all have been looked at yet, which takes several calls if they are large.
  PgExpected<std::vector<TableUse>> look(PgConnection& connection, const Generations& generations,
                                         Table table);
  // Those from which the smallest part is live come first.
  std::vector<Move> moves(const Generations& generations, Table table,
                          const std::vector<TableUse>& uses) const;
  // In steps, until all has moved or it is `end`. False: nothing has, because its first batch is too large, or it would take too
  // long to find out what to move, or no table is free, or the writer is busy.
  PgExpected<bool> move(PgConnection& connection, Move what, Instant end);

  // None: the writer has them, or they are unknown.
  std::optional<Generations> copy() LOCKSLEY_EXCLUDES(generations_.mutex);
  PgExpected<Freed> change(const std::function<PgExpected<Freed>(Generations&)>& change)
      LOCKSLEY_EXCLUDES(generations_.mutex);

  SharedGenerations& generations_;
  const TableSizes& sizes_;
  const std::int32_t node_;
  const Limits limits_;
  Freed hindrance_ = Freed::kDone;  // else what hinders it
  // At the tables of payloads, and of results.
  struct Look {
    std::vector<Generations::Span> spans;
    std::vector<TableUse> uses;  // of the first of them
    Instant next{};              // when it may begin, or go on
  };
  std::array<Look, 2> looks_;
};

}  // namespace locksley::daemon

// Decides which rows compaction moves. Internal to daemon/store/postgres, without libpq.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "daemon/store/postgres/generations.h"
#include "daemon/store/postgres/shared_generations.h"

namespace locksley::daemon {

// The bytes of a table.
struct TableBytes {
  std::uint64_t live = 0;  // about what its rows take
  std::uint64_t size = 0;  // of the table with its index, and with rows that were deleted
};

// How much of a generation is moved in one step. Bytes are counted as TableBytes::live is.
struct MoveStep {
  std::optional<std::int64_t> end;  // the batches below it; none: all
  std::uint64_t bytes = 0;          // of their rows
  std::uint64_t first_bytes = 0;    // of the first batch, which is part of each step
  std::uint64_t table_bytes = 0;    // of all rows in the table
};

// Of the generations of one kind. A generation's rows are worth moving in two cases:
//
// - At most half of what its table holds is live, and the tables need room: they are larger than
//   their live rows by a fifth and the least bytes of a generation, or all are in use. More than
//   half is left alone, because batches tend to be deleted in the order in which they came, so that
//   most of those rows will be deleted soon.
// - Its table is *settled*: most of its rows have moved before, so they have outlived their
//   neighbours. It does not wait for the others: its rows move again once a third of the rows that
//   came into it have been deleted, if these are more than a sixteenth of the live rows in the
//   tables of earlier generations, and more than half of the least bytes of a generation. If the
//   tables need room, half is enough. This costs little, because it happens rarely. Without it a
//   settled table can be half empty while a whole generation is nearly empty, too.
//
// A settled table is compared with the rows that have come into it, and not with its size: else
// rows that fill their pages badly would be moved for ever. The writer can put rows into it, too,
// if a batch ends late. No vacuum frees space inside these tables, so each row makes them larger:
// their growth measures the writer's additions. The shares above were found by simulation
// (tests/unit/daemon/store/postgres/move_planner_test.cc).
//
// For one thread.
class MovePlanner {
 public:
  using Span = Generations::Span;

  MovePlanner(Table table, const TableSizes& sizes) : table_(table), sizes_(sizes) {}

  // The generations that may be over, in the order in which they should be measured: those without
  // a measurement come first. Measurements of other generations are dropped.
  std::vector<Span> to_measure(const Generations& generations);
  // The bytes of its table. None: they could not be measured; the last figures stand, or zeros if
  // there are none.
  void set(const Span& span, std::optional<TableBytes> bytes);

  struct Move {
    Span span;
    bool joins = false;  // its rows go to the table of the generation before; else to an empty one
    TableBytes bytes;    // what its table holds
  };
  // The smallest live part comes first; those that have failed come last. Empty until all
  // generations that may be over have been measured.
  std::vector<Move> moves(const Generations& generations) const;
  // Whether they include that of `span`.
  bool moves(const Generations& generations, const Span& span) const;

  // The counted bytes of its rows; its size stays the same.
  void set_live(const Span& span, std::uint64_t live);
  // Rows have moved from the table of `from` to the table `target`, which was empty before, or that
  // of the generation before.
  struct Target {
    std::int16_t number = 0;
    bool was_empty = false;
    std::uint64_t size_before = 0;  // of the table with its index
    std::uint64_t size = 0;         // afterwards
  };
  void moved(const Span& from, const MoveStep& step, const Target& target);
  // Its rows could not be moved.
  void failed(const Span& span);
  // The table was truncated.
  void emptied(std::int16_t number);
  // Forgets everything, for when it is unknown whether the last change took effect.
  void forget();

 private:
  // The last measurement. Rows may have been deleted since.
  struct Known {
    Span span;
    TableBytes bytes;
  };
  struct Settled {
    std::int16_t number = 0;
    std::uint64_t moved_in = 0;  // bytes of rows
    std::uint64_t written = 0;   // approximate bytes of rows that the writer has put in
    std::uint64_t size = 0;      // of the table, as last measured
    std::uint64_t filled() const { return moved_in + written; }
  };
  // By how much its table has grown since it was measured last.
  void count_written(std::int16_t number, std::uint64_t size);
  const Known* known(const Span& span) const;
  const Settled* settled(std::int16_t number) const;
  struct State {
    std::uint64_t live = 0;   // in all tables of earlier generations
    bool needs_room = false;  // or they lack tables
  };
  // None: a generation has not been measured.
  std::optional<State> state(const Generations& generations) const;
  bool is_worth_moving(const Known& known, const State& state) const;

  const Table table_;
  const TableSizes& sizes_;
  std::vector<Known> known_;  // the one that was measured last is the last
  std::vector<Settled> settled_;
  std::vector<Span> failed_;  // could not be moved when they were tried last
};

}  // namespace locksley::daemon

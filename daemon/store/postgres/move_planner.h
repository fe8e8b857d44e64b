// Decides which rows compaction moves. Internal to daemon/store/postgres, without libpq.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "daemon/store/postgres/generations.h"
#include "daemon/store/postgres/shared_generations.h"

namespace locksley::daemon {

// What a table holds.
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
// - At most half of what its table holds is live, and the tables need room: they are larger than their live rows by a fifth and
//   the least bytes of a generation, or all are in use. More than half is left alone, because batches tend to be deleted in the
//   order in which they came, so that most of those rows will be deleted soon.
// - Its table is *settled*: its rows have moved before, so they have outlived their neighbours. It does not wait for the others: its
//   rows move again once a third of them has been deleted, and these took a sixteenth of the live bytes of all. This costs
//   little, because it happens rarely. Without it a settled table can be half empty while a whole generation is nearly empty,
//   too.
//
// A settled table is compared with the rows that have come into it, and not with its size: else rows that fill their pages badly
// would be moved for ever. The shares above were found by simulation (tests/unit/daemon/store/postgres/move_planner_test.cc).
//
// For one thread.
class MovePlanner {
 public:
  using Span = Generations::Span;

  MovePlanner(Table table, const TableSizes& sizes) : table_(table), sizes_(sizes) {}

  // The generations that may be over, in the order in which they should be measured: first those that nothing is known of. What was
  // known of others is forgotten.
  std::vector<Span> to_measure(const Generations& generations);
  // What its table holds; zeros if that could not be found out.
  void set(const Span& span, TableBytes bytes);

  struct Move {
    Span span;
    bool joins = false;  // its rows go to the table of the generation before; else to an empty one
    TableBytes bytes;    // what its table holds
  };
  // Those from which the smallest part is live come first. None, until all generations that may be over have been measured.
  std::vector<Move> moves(const Generations& generations) const;
  // Whether they include that of `span`.
  bool moves(const Generations& generations, const Span& span) const;

  // Rows have moved from the table of `from` to the table `target`, which was empty before, or that of the generation before.
  void moved(const Span& from, const MoveStep& step, std::int16_t target, bool was_empty);
  // The table was truncated.
  void emptied(std::int16_t number);
  // Everything: what was done last may have had its effect or not.
  void forget();

 private:
  // What was measured. Rows may have been deleted since.
  struct Known {
    Span span;
    TableBytes bytes;
  };
  struct Settled {
    std::int16_t number = 0;
    std::uint64_t filled =
        0;  // the bytes of all rows that have come into it, without those that have moved on
  };
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
};

}  // namespace locksley::daemon

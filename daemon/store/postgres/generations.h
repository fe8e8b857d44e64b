// Which table has the rows of which batches. Internal to daemon/store/postgres, without libpq.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "daemon/store/engine/engine.h"
#include "daemon/store/postgres/postgres_group.h"

namespace locksley::daemon {

// Payloads lie in nine tables, and results in nine others: one for each of eight generations of
// batches, and table 0, for batches that are older than the generations. All payloads of a batch
// are in one of the former, and all its results in one of the latter: the number of the batch
// decides in which. Once the newest generation has enough bytes, new batches begin another one, in
// an empty table.
//
// A table whose rows have all been deleted is truncated. That frees its space at once, even if a
// session is idle in a transaction; vacuum would have to wait for that session. Once half of a
// generation's rows have been deleted, or a third of those in a table of moved rows, the remaining
// rows may move to the table of the generation before, or to a table that is kept empty for this.
// Then its own table is truncated. See compaction.h.
//
// A value, which SharedGenerations guards. The table locksley_generation says the same.
class Generations {
 public:
  static constexpr std::int16_t kTablesOfBatches = 8;  // numbered from 1
  static constexpr std::int16_t kRest = 0;             // the table that is not a generation's

  // From this batch on, to the first of the next span, rows of `table` are in the table with this
  // number.
  struct Span {
    Table table = Table::kPayloads;
    std::int64_t first = 0;
    std::int16_t number = kRest;
    friend bool operator==(const Span&, const Span&) = default;
  };

  // `spans`: in the order of their batches. `last_payloads`, `last_results`: no batch with a higher
  // number has such rows.
  void load(const std::vector<Span>& spans, std::int64_t last_payloads, std::int64_t last_results);

  // Needs: payloads or results.
  std::int16_t number_of(Table table, std::int64_t batch) const;
  // The bytes that a generation should have before the next one begins.
  struct Enough {
    std::uint64_t payloads = 0;
    std::uint64_t results = 0;
    std::uint64_t of(Table table) const { return table == Table::kPayloads ? payloads : results; }
  };
  // Begins a generation where the newest one has enough bytes and two tables are empty; one of
  // these stays empty. Returns the generations that have begun.
  std::vector<Span> begin(const Enough& enough);
  // The group was written.
  void count(const PostgresGroup& group);

  // The generations that may be over: all but the newest.
  std::vector<Span> earlier(Table table) const;
  // In the order of their batches, with the newest, and with those of the table kRest.
  const std::vector<Span>& spans(Table table) const { return of(table).spans; }
  // The newest one has `enough` bytes, and no other can begin.
  bool lacks_tables(Table table, std::uint64_t enough) const;
  // The table of the generation before `span`; kRest: there is none, or that is its table.
  std::int16_t before(const Span& span) const;
  // Which table is empty; kRest: none.
  std::int16_t empty_table(Table table) const { return of(table).empty_table(); }
  // The rows of the batches below `end` have moved from the table of `span`, which is one of
  // earlier(), to the table `target`: before(), or an empty one. Without `end`: all have moved, and
  // its table is empty now.
  void move(const Span& span, std::optional<std::int64_t> end, std::int16_t target);
  // Its table was truncated, because its rows had all been deleted. No effect if there is no such
  // span.
  void end(const Span& span);

 private:
  struct OfTable {
    std::vector<Span> spans;  // ascending; those for the rest are never neighbours
    std::int64_t last = -1;   // no batch with a higher number has rows
    std::uint64_t bytes = 0;  // put into the newest generation since load()

    bool is_full(std::uint64_t enough) const;
    bool can_begin() const;            // two tables are empty
    std::int16_t empty_table() const;  // kRest: none is
  };
  OfTable& of(Table table) { return table == Table::kPayloads ? payloads_ : results_; }
  const OfTable& of(Table table) const { return table == Table::kPayloads ? payloads_ : results_; }

  OfTable payloads_;
  OfTable results_;
};

}  // namespace locksley::daemon

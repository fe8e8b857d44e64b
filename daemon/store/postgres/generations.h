// Which table has the rows of which batches. Internal to daemon/store/postgres, without libpq.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/store/engine.h"
#include "daemon/store/postgres/postgres_group.h"

namespace locksley::daemon {

// Payloads lie in nine tables, and results in nine others: one for each of eight generations of batches, and one for the
// rest. All rows of a batch that are payloads are in one of them, and all its results are in one of the others; which, is
// decided by its number. Once the newest generation has enough bytes, new batches begin another one, in an empty table.
//
// A table whose rows have all been deleted is truncated. That gives its room back at once, also beside a session that is
// idle in a transaction; vacuum would have to wait for that session. See table_upkeep.h.
//
// A value of the ServerEngine, which guards it. What is in the database is as here.
class Generations {
 public:
  static constexpr std::int16_t kTablesOfBatches = 8;  // numbered from 1
  static constexpr std::int16_t kRest = 0;             // the table for the rest

  // From this batch on, to the first of the next span, rows of `table` are in the table with this number.
  struct Span {
    Table table = Table::kPayloads;
    std::int64_t first = 0;
    std::int16_t number = kRest;
    friend bool operator==(const Span&, const Span&) = default;
  };

  // `spans`: in the order of their batches. `last_payloads`, `last_results`: no batch with a higher number has such rows.
  void load(const std::vector<Span>& spans, std::int64_t last_payloads, std::int64_t last_results);

  // Needs: payloads or results.
  std::int16_t number_of(Table table, std::int64_t batch) const;
  // Begins a generation where the newest one has `enough` bytes and a table is empty. Returns what has begun.
  std::vector<Span> begin(std::uint64_t enough);
  // The group was written.
  void count(const PostgresGroup& group);

  // The generations that may be over: all but the newest.
  std::vector<Span> earlier(Table table) const;
  // The newest one has `enough` bytes, and no table is empty.
  bool lacks_tables(Table table, std::uint64_t enough) const;
  // Its table was truncated: its rows had been deleted, or are in the table for the rest now. Returns whether the span
  // stays, with the number kRest.
  bool end(const Span& span, bool has_rest);

 private:
  struct OfTable {
    std::vector<Span> spans;  // ascending; those for the rest are never neighbours
    std::int64_t last = -1;   // no batch with a higher number has rows
    std::uint64_t bytes = 0;  // put into the newest generation since load()

    bool is_full(std::uint64_t enough) const;
    std::int16_t empty_table() const;  // kRest: none is
  };
  OfTable& of(Table table) { return table == Table::kPayloads ? payloads_ : results_; }
  const OfTable& of(Table table) const { return table == Table::kPayloads ? payloads_ : results_; }

  OfTable payloads_;
  OfTable results_;
};

}  // namespace locksley::daemon

// Two stores, read side by side.
#pragma once

#include <cstdint>
#include <expected>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/store/engine/engine.h"

namespace locksley::daemon {

// A row that at least one of two stores has.
struct PairedRow {
  std::string_view key;
  std::optional<std::string_view> source;  // its value there
  std::optional<std::string_view> target;
};

// Visits the rows of one table of two stores, in the order of their keys: each key once, with its
// value in either store.
//
// It reads in steps, and no EngineReading exists between two of them, so the caller may commit
// there. A step reads the rows of as many batches as the visitor took in the steps before, or up to
// twice as many: so an engine that must sort the rows of several batches (PostgreSQL) sorts about
// as many rows as are visited. Neither store changes during a step; between steps only rows change
// that were visited.
//
// On the stack of the thread that reads. All members may block on the disk, or on the network. The
// engines outlive it.
class PairWalk {
 public:
  // Begins behind the row `after`; empty: with the first one.
  PairWalk(Engine& source, Engine& target, Table table, std::string after = {});

  // Returns whether the step goes on with the next row. The views are valid until it returns.
  using Visit = std::function<bool(const PairedRow&)>;
  // The error is a sentence without its full stop, which names the store that cannot be read.
  std::expected<void, std::string> step(const Visit& visit);

  // No row is left. May become true only by a step that visits none.
  bool is_at_end() const { return is_at_end_; }
  // The key of the row that was visited last; or where the walk began.
  const std::string& after() const { return after_; }

 private:
  // Rows whose keys begin alike, and continue with the number of a batch: a kind of row of the
  // index, or a whole table.
  struct Section {
    std::string prefix;
    std::string end;         // no key of it is as great; empty: it has no end
    std::uint64_t last = 0;  // the highest number that a key of it has
  };
  using Done = std::expected<void, std::string>;

  std::string section_prefix() const;
  // Goes to the next section that has rows, or to the end.
  Done enter_section();
  // Raises section_.last to that of the last row that `engine` has there; whether there is a row.
  std::expected<bool, std::string> look_for_last(Engine& engine);
  std::uint64_t number_in(std::string_view key) const;
  // After a step without a row: moves on to the next batch that has one, by bisection. Needs: there
  // is one.
  Done skip_gap();
  // Whether the visitor took all.
  std::expected<bool, std::string> visit_range(std::string_view high, const Visit& visit);

  Engine& source_;
  Engine& target_;
  const Table table_;
  std::string after_;
  char kind_;                       // of the index: that of the section
  std::optional<Section> section_;  // none: it is not known yet whether there are rows of `kind_`
  std::string low_;                 // the next step begins here
  std::uint64_t low_number_ = 0;
  std::uint64_t width_ = 1;  // how many batches the next step reads
  bool is_at_end_ = false;
};

}  // namespace locksley::daemon

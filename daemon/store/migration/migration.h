// From one store to another, whatever their engines.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/store/engine/engine.h"
#include "daemon/store/migration/pair_walk.h"
#include "daemon/store/migration_mark.h"

namespace spdlog {
class logger;
}

namespace locksley::daemon {

// How many rows a table of a store has, the bytes of their keys and values, and a digest of these
// in the order of the keys.
struct TableSum {
  std::uint64_t rows = 0;
  std::uint64_t bytes = 0;
  std::string digest;  // XXH3, 32 hexadecimal digits
  friend bool operator==(const TableSum&, const TableSum&) = default;
};

// Why a migration has not ended.
struct MigrationError {
  enum class Kind : std::uint8_t {
    kRefused,    // the two stores are not for each other; nothing was changed
    kFailed,     // a store cannot be read or written; the next run goes on
    kLost,       // another daemon has taken a store over; likewise
    kDifferent,  // the copy differs from its source after all
  };
  Kind kind;
  std::string what;  // a sentence without its full stop
};

// Copies all rows of a store into an empty one, compares the two, and then marks the source as
// migrated and the copy as whole. It can end at any moment, also by kill -9 or by a loss of power:
// another run with the same two stores goes on. Until the end no daemon starts on the copy, and
// from then on none on the source (migration_forbids_start()).
//
// Both stores get a mark with the same random id, and the copy a format that forbids to start on
// it, before the first row is copied. Rows are copied in groups, each of which has the position
// that it has reached. A walk through both stores writes what differs; so if a daemon has served
// from the source between two runs, that is copied, too. The comparison reads both stores
// completely, and decides: if it finds a difference, the copy is made once more from its beginning.
// At the end the source is marked before the copy, so there is no moment at which daemons could
// start on both.
//
// Memory: one group, of about write_ahead_bytes(), or one row, whichever is more; and the rows that
// the engines read ahead.
//
// On the stack of the thread that has the role of the writer of both stores; they are open, outlive
// it, and no Store uses them. Blocks on the disk, or on the network. The log gets a line for each
// part of the work.
class Migration {
 public:
  enum class Phase : std::uint8_t { kCopying, kComparing };
  // How much of the source this run has read in this phase.
  struct Progress {
    Phase phase = Phase::kCopying;
    Table table = Table::kPayloads;
    std::uint64_t rows = 0;
    std::uint64_t bytes = 0;
  };
  // Called after every few megabytes or more often, between groups. False: ends the run, in order.
  using GoesOn = std::function<bool(const Progress&)>;

  enum class Outcome : std::uint8_t {
    kDone,
    kDoneBefore,  // an earlier run had finished; nothing was compared
    kStopped,     // `goes_on` has said so
  };

  Migration(Engine& source, Engine& target, std::shared_ptr<spdlog::logger> log, GoesOn goes_on);
  Migration(const Migration&) = delete;
  Migration& operator=(const Migration&) = delete;
  ~Migration();

  std::expected<Outcome, MigrationError> run() LOCKSLEY_REQUIRES(kStoreWriter);
  // After kDone: of the source and, the same, of the copy; in the order of Table.
  const std::array<TableSum, kTables>& sums() const { return sums_; }

 private:
  using Done = std::expected<void, MigrationError>;
  template <class Value>
  using Result = std::expected<Value, MigrationError>;

  // The state of the two stores, by their marks.
  enum class Start : std::uint8_t {
    kNew,         // the target is empty
    kUnfinished,  // it is a copy of this source
    kWhole,       // likewise, and whole
  };
  Result<Start> determine_start();
  Result<bool> is_empty(Engine& engine) const;
  Done begin() LOCKSLEY_REQUIRES(kStoreWriter);
  // All tables, from the position of the mark on. False: stopped.
  Result<bool> copy() LOCKSLEY_REQUIRES(kStoreWriter);
  Result<bool> copy_table(Table table, std::string after) LOCKSLEY_REQUIRES(kStoreWriter);
  // Writes the group with the position, and empties it.
  Done commit_copied(Engine::Group& group, Table table, const std::string& after)
      LOCKSLEY_REQUIRES(kStoreWriter);
  enum class Comparison : std::uint8_t { kSame, kDifferent, kStopped };
  Result<Comparison> compare() LOCKSLEY_REQUIRES(kStoreWriter);
  Result<Comparison> compare_table(Table table);
  Done finish() LOCKSLEY_REQUIRES(kStoreWriter);
  // In one group, synced.
  Done write_mark(Engine& engine, std::string_view form) LOCKSLEY_REQUIRES(kStoreWriter);
  Done commit(Engine& engine, Engine::Group& group) LOCKSLEY_REQUIRES(kStoreWriter);

  Engine& source_;
  Engine& target_;
  const std::shared_ptr<spdlog::logger> log_;
  const GoesOn goes_on_;
  MigrationMark mark_;             // as the target has it; the source has another `other`
  bool source_is_marked_ = false;  // as migrated
  Progress progress_;
  std::array<TableSum, kTables> sums_;
};

// Makes a store that was migrated usable again, as it was. `engine` is open, and no Store uses it.
// The error is a sentence: it was not migrated, or it cannot be read or written.
std::expected<void, std::string> undo_migration(Engine& engine) LOCKSLEY_REQUIRES(kStoreWriter);

}  // namespace locksley::daemon

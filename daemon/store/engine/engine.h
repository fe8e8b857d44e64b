// The interface to the database below the store. Encoding, group commit, tickets, recovery and the
// policy for a failing disk belong to the store, for every engine.
#pragma once

#include <chrono>
#include <cstdint>
#include <expected>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "daemon/store/engine/disk_space.h"
#include "daemon/store/engine/key.h"
#include "daemon/store/engine/writer_thread.h"

namespace spdlog {
class logger;
}

namespace locksley::daemon {

// The rows of the index are read as a whole at the start, and stay small; payloads and results are
// read when they are needed. Within a table rows lie in the order of their keys (Key).
enum class Table : std::uint8_t { kIndex, kPayloads, kResults };
inline constexpr std::size_t kTables = 3;

// Why an engine failed, classified by how the caller reacts.
struct EngineError {
  enum class Kind : std::uint8_t {
    kNotOpen,  // closed, or open for reading only, until reopen() succeeds; or see ReadingConnection::kOpen
    kFailed,   // the disk, or the connection
    kAway,     // of a reading: the server cannot be reached, or broke the reading off; retry later
    kFull,     // no room
    kDamaged,  // written rows cannot be read
    kInUse,    // by another daemon
    kFenced,   // another daemon has taken the rows over, or acknowledged groups are gone: final
  };
  Kind kind = Kind::kFailed;
  std::string what;  // the message of the engine, or of the system
};
using EngineDone = std::expected<void, EngineError>;

// Rows of one table from one key on, in order, as they were when the cursor was made. Lives on the
// stack of the thread that reads, and does not outlive its EngineReading. All members may block on
// the disk.
class RowCursor {
 public:
  virtual ~RowCursor() = default;
  // Whether the cursor is at a row. False after the last row, and after an error.
  virtual bool is_valid() const = 0;
  virtual void next() = 0;
  // Needs: is_valid(). The views are valid until the next call of next().
  virtual std::string_view key() const = 0;
  virtual std::string_view value() const = 0;
  virtual EngineDone status() const = 0;
};

// The rows that a cursor visits: those of `table` with low <= key < high; an empty `high` is no
// bound.
struct RowRange {
  Table table;
  std::string_view low;
  std::string_view high;
  // If this key is not empty, the cursor begins with the last row whose key is not above it, if the
  // range has such a row; otherwise with the first row.
  std::string_view from_at_most = {};
  // The range has very many rows, all of which will be read, and not again soon: the engine reads
  // ahead, and keeps them out of its cache.
  bool is_read_once = false;
};

// A row by itself.
struct FoundRow {
  std::string key;
  std::string value;
};

// How long a reading waits for an engine that is not open. kBriefly: 200 ms, about as long as
// opening takes.
enum class ReadingWait : std::uint8_t { kBriefly, kNot };

// Which connection to another machine a reading uses. kOpen: one that is open and unused; if there
// is none, the reading fails at once with kNotOpen, since connecting takes seconds if that machine,
// or a name server, is silent.
enum class ReadingConnection : std::uint8_t { kAny, kOpen };

// The values of rows, in the order of their keys; none: there is no such row.
using RowValues = std::vector<std::optional<std::string>>;

// A database of rows, each a key and a value.
//
// Owned by the Store. Any thread reads, through an EngineReading; one thread writes (kStoreWriter).
// Reads, commits and reopen() block on the disk, or on the network; reopen() and the destructor
// also wait for all readings. A failure is an EngineError, never an exception.
class Engine {
 public:
  // Changes that are committed together, in the order in which they were put. One thread fills a
  // group and commits it.
  class Group {
   public:
    virtual ~Group() = default;
    virtual void put(Table table, std::string_view key, std::string_view value) = 0;
    virtual void erase(Table table, std::string_view key) = 0;
    // Deletes the rows of low <= key < high. kAllCommitted: this group has put no row there, so the
    // engine may read the range, and delete the rows one by one if they are few. It then blocks on
    // the disk.
    enum class Rows : std::uint8_t { kAllCommitted, kSomeOfThisGroup };
    virtual void erase_range(Table table, std::string_view low, std::string_view high, Rows rows) = 0;
    // About how many bytes the group has.
    virtual std::size_t size_bytes() const = 0;
    virtual bool empty() const = 0;
    virtual void clear() = 0;
  };
  // kSynced: once commit() returns, the rows survive a power loss; kWritten: the end of this
  // process.
  enum class Sync : std::uint8_t { kSynced, kWritten };

  // Closes the engine in order. No reading may exist.
  virtual ~Engine() = default;

  // ---- The writer's thread ----

  virtual std::unique_ptr<Group> new_group() = 0;
  // Commits all changes or none, also after a crash. After an error the caller calls reopen()
  // first: the writes of the failed commit may be in the database or not.
  virtual EngineDone commit(Group& group, Sync sync) LOCKSLEY_REQUIRES(kStoreWriter) = 0;
  // For large values, before the commit of the group that they belong to: writes this group and
  // clears it, so that the values are not in memory twice. After a crash or a later error the
  // values may be in the database or not. The commit that follows makes them as durable as itself.
  virtual EngineDone write_ahead(Group& group) LOCKSLEY_REQUIRES(kStoreWriter) = 0;
  // The most bytes that a group of several writes should have: a larger one would take so long that
  // other writes wait. A group of a single write may have more. By default there is no bound.
  virtual std::size_t group_bytes() const { return std::numeric_limits<std::size_t>::max(); }
  // How many bytes a group should have when it is passed to write_ahead().
  virtual std::size_t write_ahead_bytes() const = 0;
  // Makes all committed rows survive a power loss.
  virtual EngineDone sync() LOCKSLEY_REQUIRES(kStoreWriter) = 0;
  // Called after an error. If reopen() succeeds, all acknowledged rows are safe, and no later
  // commit depends on the failed one. If not, the engine is open for reading only, or closed if
  // even that is impossible.
  virtual EngineDone reopen() LOCKSLEY_REQUIRES(kStoreWriter) = 0;

  // Free space. check_room(): whether so many more bytes can be written, and all rows can be
  // deleted afterwards; the error is a sentence for the operator. has_last_room(): the same with a
  // smaller reserve, for the last writes of a process.
  virtual EngineDone check_room(std::uint64_t bytes) LOCKSLEY_REQUIRES(kStoreWriter) = 0;
  virtual bool has_last_room(std::uint64_t bytes) LOCKSLEY_REQUIRES(kStoreWriter) = 0;
  // Gives up the space that was reserved for deletions.
  virtual void use_reserve() LOCKSLEY_REQUIRES(kStoreWriter) = 0;
  // Frees the space of the deleted rows of the batches from `first` to `last`, both included.
  virtual EngineDone reclaim(std::uint64_t first, std::uint64_t last) LOCKSLEY_REQUIRES(kStoreWriter) = 0;

  // ---- Any thread ----

  // For messages: its folder, or its address.
  virtual const std::string& place() const = 0;
  // A unique name of this database, which stays the same as long as it exists. A copy of an
  // embedded database has another name.
  virtual const std::string& id() const = 0;
  // Whether readings wait for another machine, and so may take very long.
  virtual bool is_on_network() const { return false; }
  // For messages about damage: the remedy, a sentence without its full stop.
  enum class Damage : std::uint8_t {
    kUnreadable,     // the engine cannot read its rows
    kContradictory,  // the rows can be read, but contradict each other: a repair by the engine would not help
  };
  virtual std::string_view remedy(Damage damage) const = 0;
  struct Usage {
    std::uint64_t bytes = 0;         // of all rows, deleted ones included as long as they take room
    std::optional<DiskSpace> space;  // of the file system that contains them, if that is known
  };
  // Takes a system call or more.
  virtual Usage usage() const = 0;
  // The engine's own work beside the writer's, such as compaction, goes on from start_upkeep(),
  // which Store::start() calls, to stop_upkeep(). set_live_bytes(): the bytes of all batches, to
  // compare usage() with.
  virtual void start_upkeep() = 0;
  virtual void stop_upkeep() = 0;
  virtual void set_live_bytes(std::uint64_t bytes) = 0;

  // Copies of all rows, which are made while the writer commits. why_no_copies(): why the engine
  // makes none, for the client that asks; empty: it makes them. copy_to(): makes `folder`, which
  // must not exist, with all rows that were committed before the call, and perhaps some that are
  // committed meanwhile; a daemon can start from it. Returns once the folder and its files survive
  // a power loss; its parent has not been synced. Needs: why_no_copies() is empty, and no other
  // copy_to() runs. Not for the writer's thread: it blocks on the disk for as long as a copy takes.
  // Ends early, with kNotOpen, after `stop` and before the engine closes. After an error a part of
  // the folder may exist.
  virtual std::string_view why_no_copies() const = 0;
  virtual EngineDone copy_to(const std::string& folder, const std::stop_token& stop) = 0;

 protected:
  friend class EngineReading;
  virtual bool begin_reading(ReadingWait wait) = 0;
  virtual void end_reading() = 0;
  virtual std::expected<bool, EngineError> get(Table table, std::string_view key, std::string& value) = 0;
  // By default calls get() for each key, one after another.
  virtual std::expected<RowValues, EngineError> get_within(Table table, std::span<const Key> keys,
                                                           std::chrono::milliseconds patience,
                                                           ReadingConnection connection);
  virtual std::unique_ptr<RowCursor> scan(const RowRange& range) = 0;
  // By default with a cursor.
  virtual std::expected<std::optional<FoundRow>, EngineError> first_row(const RowRange& range);
  // By default as first_row().
  virtual std::expected<std::optional<FoundRow>, EngineError> first_row_within(
      const RowRange& range, std::chrono::milliseconds /*patience*/, const std::stop_token& /*stop*/) {
    return first_row(range);
  }
  // By default with a cursor for each kind.
  virtual std::unique_ptr<RowCursor> scan_batches(std::span<const char> kinds);
  // By default with a cursor for each kind, which begins with the last row.
  virtual std::expected<std::uint64_t, EngineError> highest_batch(std::span<const char> kinds);
};

// A reading of an open engine, which stays open while a reading exists. A reading is not valid if
// the engine is not open: while it is being reopened, and after that has failed. The constructor
// waits for the engine to open, as long as `wait` says.
//
// Lives on the stack of the thread that reads; create it, use it and destroy it there. All other
// members need is_valid(), and may block on the disk.
class EngineReading {
 public:
  using Wait = ReadingWait;
  using Visit = std::function<bool(std::string_view key, std::string_view value)>;

  explicit EngineReading(Engine& engine, Wait wait = Wait::kBriefly)
      : engine_(engine), is_valid_(engine.begin_reading(wait)) {}
  ~EngineReading() {
    if (is_valid_) engine_.end_reading();
  }
  EngineReading(const EngineReading&) = delete;
  EngineReading& operator=(const EngineReading&) = delete;

  bool is_valid() const { return is_valid_; }
  // False: there is no such row, and `value` is undefined.
  std::expected<bool, EngineError> get(Table table, std::string_view key, std::string& value) const {
    return engine_.get(table, key, value);
  }
  // The same for a thread that serves others, too: an engine on another machine fails with kAway if
  // that machine has not replied after `patience`. If it must connect first, which kAny allows, it
  // may block for many seconds longer.
  std::expected<bool, EngineError> get_within(Table table, const Key& key, std::string& value,
                                              std::chrono::milliseconds patience) const;
  // Reads several rows in one round trip.
  std::expected<RowValues, EngineError> get_within(Table table, std::span<const Key> keys,
                                                   std::chrono::milliseconds patience,
                                                   ReadingConnection connection) const {
    return engine_.get_within(table, keys, patience, connection);
  }
  // The bounds need not outlive the call.
  std::unique_ptr<RowCursor> scan(const RowRange& range) const { return engine_.scan(range); }
  // The row at which scan(range) would begin; none: the range is empty. An engine on another
  // machine finds it in one round trip, and sends no other row.
  std::expected<std::optional<FoundRow>, EngineError> first_row(const RowRange& range) const {
    return engine_.first_row(range);
  }
  // The same with the patience of get_within(). After `stop` an engine on another machine fails at
  // once, with kAway.
  std::expected<std::optional<FoundRow>, EngineError> first_row_within(
      const RowRange& range, std::chrono::milliseconds patience, const std::stop_token& stop = {}) const {
    return engine_.first_row_within(range, patience, stop);
  }
  // All rows of the index that are of a batch and of these kinds, which are ascending: in the order
  // of their batches, and those of one batch in the order of their keys. A start reads all batches
  // in this way. Use no kind that names a customer.
  std::unique_ptr<RowCursor> scan_batches(std::span<const char> kinds) const {
    return engine_.scan_batches(kinds);
  }
  // The highest batch that has a row in any table; 0: there are no rows. `kinds`: those of all rows
  // of the index that belong to batches.
  std::expected<std::uint64_t, EngineError> highest_batch(std::span<const char> kinds) const {
    return engine_.highest_batch(kinds);
  }

  // Visits the rows of a range in the order of their keys, until `visit` returns false.
  EngineDone visit(const RowRange& range, const Visit& visit) const;
  // The same for all rows whose keys begin with `prefix`.
  EngineDone visit_prefix(Table table, std::string_view prefix, const Visit& visit) const;

 private:
  Engine& engine_;
  const bool is_valid_;
};

// Why a start cannot use a store.
struct StoreRefusal {
  std::string what;    // for the operator: names the place, says what is wrong and what to do
  bool lasts = false;  // until an operator has done that: starting again does not help
};

// Opens an engine, and creates its database if there is none.
struct EngineOptions {
  std::string path;
  config::Durability durability = config::Durability::kFsync;
  std::shared_ptr<spdlog::logger> log;
};
using OpenEngine =
    std::function<std::expected<std::unique_ptr<Engine>, StoreRefusal>(const EngineOptions& options)>;

}  // namespace locksley::daemon

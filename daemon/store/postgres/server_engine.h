// The engine on a PostgreSQL server. Internal to daemon/store/postgres.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>

#include "core/sync/mutex.h"
#include "daemon/base/log/rate_gate.h"
#include "daemon/base/time.h"
#include "daemon/store/engine/engine.h"
#include "daemon/store/engine/reading_gate.h"
#include "daemon/store/engine/writer_thread.h"
#include "daemon/store/postgres/change_lists.h"
#include "daemon/store/postgres/connection.h"
#include "daemon/store/postgres/connection_pool.h"
#include "daemon/store/postgres/fence.h"
#include "daemon/store/postgres/group_writer.h"
#include "daemon/store/postgres/index_copy.h"
#include "daemon/store/postgres/postgres_engine.h"
#include "daemon/store/postgres/primary_finder.h"
#include "daemon/store/postgres/server_upkeep.h"
#include "daemon/store/postgres/shared_generations.h"

namespace locksley::daemon {

// Rows in tables of a PostgreSQL database, which this daemon alone writes as long as its row in
// locksley_node is alive.
//
// Owned by the Store. Threads, blocking and errors: as Engine says. ServerUpkeep has a thread of
// its own, from open() to the destructor.
//
// A commit whose outcome is unknown is settled before commit() returns: the engine connects to the
// server that can be written, begins an epoch there, after which nothing that the lost connection
// has sent can have an effect, and reads which group was the last. It ends the readings that are
// under way, waits until they have ended, and makes one attempt to connect or more. If no attempt
// succeeds within PostgresOptions::patience, or if the outcome is unknown a second time, the commit
// has failed, and reopen() makes sure of the same. No reading begins meanwhile.
//
// Once another daemon has fenced this one, every commit and every reopen() fails with kFenced; see
// on_fenced. The same holds once the database has lost a group that was acknowledged: other groups,
// and replies, follow from it.
class ServerEngine final : public Engine {
 public:
  static std::expected<std::unique_ptr<ServerEngine>, std::string> open(EngineOptions engine,
                                                                        PostgresOptions options);
  // Lets another daemon begin at once.
  ~ServerEngine() override;
  ServerEngine(const ServerEngine&) = delete;
  ServerEngine& operator=(const ServerEngine&) = delete;

  std::unique_ptr<Group> new_group() override;
  EngineDone commit(Group& group, Sync sync) override LOCKSLEY_REQUIRES(kStoreWriter);
  EngineDone write_ahead(Group& group) override LOCKSLEY_REQUIRES(kStoreWriter);
  std::size_t group_bytes() const override { return kGroupBytes; }
  std::size_t write_ahead_bytes() const override { return kAheadBytes; }
  EngineDone sync() override LOCKSLEY_REQUIRES(kStoreWriter);
  EngineDone reopen() override LOCKSLEY_REQUIRES(kStoreWriter);

  // The free space of the server is not known here: a full disk is an error of a commit.
  EngineDone check_room(std::uint64_t) override { return {}; }
  bool has_last_room(std::uint64_t) override { return true; }
  void use_reserve() override {}
  // The server's vacuum does that.
  EngineDone reclaim(std::uint64_t, std::uint64_t) override { return {}; }

  const std::string& place() const override { return place_; }
  const std::string& id() const override { return store_; }
  bool is_on_network() const override { return true; }
  // The server repairs its rows itself, or not at all.
  std::string_view remedy(Damage) const override {
    return "Restore the database from a backup of the server's, or set store.url to an empty database to "
           "begin "
           "anew";
  }
  // As it was measured last, at most 5 s ago while the database can be reached.
  Usage usage() const override;
  void start_upkeep() override {}
  void stop_upkeep() override {}
  void set_live_bytes(std::uint64_t bytes) override { sizes_.set_live(bytes); }
  std::string_view why_no_copies() const override {
    return "the store is a database on a server: use the tools of the database, such as pg_dump";
  }
  // Not called, as why_no_copies() says.
  EngineDone copy_to(const std::string&, const std::stop_token&) override {
    return std::unexpected(EngineError{EngineError::Kind::kFailed, std::string(why_no_copies())});
  }

 protected:
  bool begin_reading(ReadingWait wait) override { return gate_.enter(wait); }
  void end_reading() override { gate_.leave(); }
  std::expected<bool, EngineError> get(Table table, std::string_view key, std::string& value) override;
  std::expected<RowValues, EngineError> get_within(Table table, std::span<const Key> keys,
                                                   std::chrono::milliseconds patience,
                                                   ReadingConnection connection) override;
  std::unique_ptr<RowCursor> scan(const RowRange& range) override;
  std::expected<std::optional<FoundRow>, EngineError> first_row(const RowRange& range) override;
  std::expected<std::optional<FoundRow>, EngineError> first_row_within(const RowRange& range,
                                                                       std::chrono::milliseconds patience,
                                                                       const std::stop_token& stop) override;
  std::unique_ptr<RowCursor> scan_batches(std::span<const char> kinds) override;
  std::expected<std::uint64_t, EngineError> highest_batch(std::span<const char> kinds) override;

 private:
  static constexpr std::size_t kAheadBytes = 1U << 20;  // measured: between 0.5 and 2 MB
  // As the groups of GroupCommit: a link of 1 MB/s takes 4 s, which is less than a lease.
  static constexpr std::size_t kGroupBytes = 4U << 20;

  // `list_bytes`: as ChangeLists has it.
  ServerEngine(EngineOptions engine, PostgresOptions options, std::unique_ptr<PrimaryFinder> primary,
               std::string store, std::int32_t node, std::optional<std::uint64_t> list_bytes);

  void set_copy(std::unique_ptr<IndexCopy> copy) LOCKSLEY_EXCLUDES(copy_mutex_);
  std::unique_ptr<IndexCopy> take_copy() LOCKSLEY_EXCLUDES(copy_mutex_);

  Written write(const PostgresGroup& group, std::optional<std::int64_t> number, Safety safety)
      LOCKSLEY_REQUIRES(kStoreWriter) LOCKSLEY_EXCLUDES(generations_.mutex);
  // After kUnknown: whether the group with this number was written. The error is that it cannot be
  // known yet.
  std::expected<bool, EngineError> settle(std::int64_t number, Instant deadline)
      LOCKSLEY_REQUIRES(kStoreWriter);
  // Makes another connection if the server has closed this one while no group was under way.
  EngineDone renew_closed() LOCKSLEY_REQUIRES(kStoreWriter);
  // Connects, begins an epoch, reads the generations, and returns the number of the last group that
  // was committed.
  PgExpected<std::int64_t> reconnect(Instant deadline) LOCKSLEY_REQUIRES(kStoreWriter);
  // The part after connecting.
  PgExpected<std::int64_t> begin_epoch_over(std::unique_ptr<PgConnection> opened, Instant deadline)
      LOCKSLEY_REQUIRES(kStoreWriter);
  // The first reopen(), over the connection with which this daemon became the active one: to
  // connect again may take longer than other daemons wait for its next beat.
  EngineDone begin(std::unique_ptr<PgConnection> adopted) LOCKSLEY_REQUIRES(kStoreWriter);
  // For reading and writing: from now on nothing begins.
  void close() LOCKSLEY_REQUIRES(kStoreWriter);
  EngineDone fail(EngineError error) LOCKSLEY_REQUIRES(kStoreWriter);

  const EngineOptions engine_;
  const PostgresOptions options_;
  const std::string place_;
  const std::string store_;  // its id, which its tables keep
  const std::int32_t node_;
  const std::unique_ptr<PrimaryFinder> primary_;
  ConnectionPool pool_;
  ReadingGate gate_;
  // Of the index as it is; null: there is none. For one reading, and until a group changes the
  // index.
  Mutex copy_mutex_;
  std::unique_ptr<IndexCopy> copy_ LOCKSLEY_GUARDED_BY(copy_mutex_);
  std::atomic<bool> has_copy_{false};  // written with the mutex

  std::unique_ptr<PgConnection> connection_ LOCKSLEY_GUARDED_BY(kStoreWriter);  // null: it is not open
  Writer writer_ LOCKSLEY_GUARDED_BY(kStoreWriter);                             // with its epoch
  std::int64_t number_ LOCKSLEY_GUARDED_BY(kStoreWriter) = 0;                   // of the last group
  std::int64_t done_ LOCKSLEY_GUARDED_BY(kStoreWriter) =
      0;  // of the last group that commit() said to be written
  // Rows of write_ahead() may be lost with the server, until the next commit.
  bool has_ahead_ LOCKSLEY_GUARDED_BY(kStoreWriter) = false;

  RateGate warnings_ LOCKSLEY_GUARDED_BY(kStoreWriter){std::chrono::minutes(1)};  // their lines in the log

  SharedGenerations generations_;
  TableSizes sizes_;
  ChangeLists lists_;
  Fence fence_;
  std::optional<ServerUpkeep> upkeep_;  // last: its thread uses all of the above. None: the engine ends
};

}  // namespace locksley::daemon

// The engine on a PostgreSQL server. Internal to daemon/store/postgres.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>

#include "core/sync/mutex.h"
#include "daemon/base/time.h"
#include "daemon/store/engine.h"
#include "daemon/store/postgres/compaction.h"
#include "daemon/store/postgres/connection.h"
#include "daemon/store/postgres/connection_pool.h"
#include "daemon/store/postgres/group_writer.h"
#include "daemon/store/postgres/index_rewrite.h"
#include "daemon/store/postgres/node_watch.h"
#include "daemon/store/postgres/postgres_engine.h"
#include "daemon/store/postgres/primary_finder.h"
#include "daemon/store/postgres/shared_generations.h"
#include "daemon/store/reading_gate.h"
#include "daemon/store/writer_thread.h"

namespace locksley::daemon {

// Rows in tables of a PostgreSQL database, which this daemon alone writes as long as its row in locksley_node is alive.
//
// Owned by the Store. Threads, blocking and errors: as Engine says. A thread of its own, from open() to the destructor,
// says that the daemon lives while nothing is committed, looks at the other daemons, measures how large the tables are,
// and truncates those that have no rows any more.
//
// A commit whose outcome is unknown is settled before commit() returns: the engine connects to the server that can be
// written, begins an epoch there, after which nothing that the lost connection has sent can have an effect, and reads which
// group was the last. If that takes longer than PostgresOptions::patience, the commit has failed, and reopen()
// makes sure of the same. No reading begins meanwhile.
//
// Once another daemon has fenced this one, every commit and every reopen() fails with kFenced; see on_fenced.
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
  std::size_t write_ahead_bytes() const override { return kAheadBytes; }
  EngineDone sync() override LOCKSLEY_REQUIRES(kStoreWriter);
  EngineDone reopen() override LOCKSLEY_REQUIRES(kStoreWriter);

  // What the server has free is not known here: a full disk is an error of a commit.
  EngineDone check_room(std::uint64_t) override { return {}; }
  bool has_last_room(std::uint64_t) override { return true; }
  void use_reserve() override {}
  // The server's vacuum does that.
  EngineDone reclaim(std::uint64_t, std::uint64_t) override { return {}; }

  const std::string& place() const override { return place_; }
  const std::string& id() const override { return store_; }
  // The server repairs its rows itself, or not at all.
  std::string_view remedy(Damage) const override {
    return "Restore the database from a backup of the server's, or set store.url to an empty database to "
           "begin "
           "anew";
  }
  void abandon() override { gate_.abandon(); }
  bool is_abandoned() const override { return gate_.is_abandoned(); }
  // As it was measured last, at most kMeasurePeriod ago while the database can be reached.
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
  std::unique_ptr<RowCursor> scan(const RowRange& range) override;
  std::expected<std::optional<FoundRow>, EngineError> first_row(const RowRange& range) override;
  std::unique_ptr<RowCursor> scan_batches(std::span<const char> kinds) override;
  std::expected<std::uint64_t, EngineError> highest_batch(std::span<const char> kinds) override;

 private:
  static constexpr std::size_t kAheadBytes = 1U << 20;  // measured: between 0.5 and 2 MB
  // So many chances to beat before another daemon may conclude that this one is gone.
  static constexpr int kBeatsInLease = 6;
  static constexpr auto kMeasurePeriod = std::chrono::seconds(5);

  ServerEngine(EngineOptions engine, PostgresOptions options, std::unique_ptr<PrimaryFinder> primary,
               std::string store, std::int32_t node);

  Written write(const PostgresGroup& group, std::optional<std::int64_t> number, Safety safety)
      LOCKSLEY_REQUIRES(kStoreWriter) LOCKSLEY_EXCLUDES(generations_.mutex);
  // After kUnknown: whether the group with this number was written. The error is that it cannot be known yet.
  std::expected<bool, EngineError> settle(std::int64_t number, Instant deadline)
      LOCKSLEY_REQUIRES(kStoreWriter);
  // Makes another connection if the server has closed this one while no group was under way.
  EngineDone renew_closed() LOCKSLEY_REQUIRES(kStoreWriter);
  // Connects, begins an epoch, reads the generations, and returns the number of the last group that was committed.
  PgExpected<std::int64_t> reconnect(Instant deadline) LOCKSLEY_REQUIRES(kStoreWriter);
  // For reading and writing: from now on nothing begins.
  void close() LOCKSLEY_REQUIRES(kStoreWriter);
  EngineDone fail(EngineError error) LOCKSLEY_REQUIRES(kStoreWriter);
  void be_fenced();

  void run_beats() LOCKSLEY_EXCLUDES(beat_mutex_);
  // A beat and a measurement, if they are due, and a look at the other daemons. After an error the connection is of no use.
  PgExpected<void> tend(std::unique_ptr<PgConnection>& connection, Instant& measured_at);
  // The sizes of the tables, unless they are locked, and the oldest transaction.
  PgExpected<void> measure(PgConnection& connection, Instant deadline);
  // A part of the upkeep: the compaction, or the rewriting of the index. The thread of the beats alone.
  struct Upkeep {
    std::string_view needs;     // of the role
    Instant locked_until{};     // tables were in use, and are tried again then
    bool is_forbidden = false;  // the role may not do it, which was logged
  };
  // Does it once, unless something hinders it.
  template <class Part>
  PgExpected<void> free_room(Upkeep& upkeep, Part& part, PgConnection& connection);
  // Forgets those that have gone.
  PgExpected<void> look_at_nodes(PgConnection& connection, Instant deadline);

  const EngineOptions engine_;
  const PostgresOptions options_;
  const std::string place_;
  const std::string store_;  // its id, which its tables keep
  const std::int32_t node_;
  const std::unique_ptr<PrimaryFinder> primary_;
  ConnectionPool pool_;
  ReadingGate gate_;

  std::unique_ptr<PgConnection> connection_ LOCKSLEY_GUARDED_BY(kStoreWriter);  // null: it is not open
  std::int64_t epoch_ LOCKSLEY_GUARDED_BY(kStoreWriter) = 0;                    // of the connection
  std::int64_t number_ LOCKSLEY_GUARDED_BY(kStoreWriter) = 0;                   // of the last group
  // Rows of write_ahead() may be lost with the server, until the next commit.
  bool has_ahead_ LOCKSLEY_GUARDED_BY(kStoreWriter) = false;

  SharedGenerations generations_;
  TableSizes sizes_;
  // The thread of the beats alone.
  Compaction compaction_;
  Upkeep compacting_{.needs = "TRUNCATE on the tables of payloads and results"};
  IndexRewrite index_rewrite_;
  Upkeep rewriting_{.needs = "TRUNCATE on locksley_index"};

  std::atomic<bool> is_fenced_{
      false};  // set once, by any thread; a thread that reads false is told by its next commit

  Mutex beat_mutex_;
  CondVar beat_ended_;
  bool is_ending_ LOCKSLEY_GUARDED_BY(beat_mutex_) = false;
  NodeWatch nodes_;    // the thread of the beats alone
  std::thread beats_;  // last: it uses all of the above
};

}  // namespace locksley::daemon

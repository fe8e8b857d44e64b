// An engine in memory, on a disk that fails and loses power as the tests tell it.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/sync/mutex.h"
#include "tests/support/slow_server.h"
#include "tests/support/store_disk.h"

namespace locksley::testing {

// What an engine in memory leaves when it is closed, or when the power goes. Owned by the test;
// outlives the engines.
class MemoryDisk final : public StoreDisk {
 public:
  using Rows = std::map<std::string, std::string, std::less<>>;
  using Tables = std::array<Rows, daemon::kTables>;

  // With what Engine::copy_to() has left in `folder`; else empty.
  explicit MemoryDisk(const std::filesystem::path& folder);

  daemon::OpenEngine engine() override;
  std::vector<RawRow> rows() const override LOCKSLEY_EXCLUDES(mutex_);
  void hold_syncs() override LOCKSLEY_EXCLUDES(mutex_);
  void release() override LOCKSLEY_EXCLUDES(mutex_);
  // As release(), but for one sync alone: the next one waits again.
  void release_one() LOCKSLEY_EXCLUDES(mutex_);
  bool await_held() override LOCKSLEY_EXCLUDES(mutex_);
  std::uint64_t syncs() const override LOCKSLEY_EXCLUDES(mutex_);
  void fail_next_sync() override LOCKSLEY_EXCLUDES(mutex_);
  void fail_syncs() override LOCKSLEY_EXCLUDES(mutex_);
  void heal() override LOCKSLEY_EXCLUDES(mutex_);
  void cut_power() override LOCKSLEY_EXCLUDES(mutex_);
  void lose_power() override LOCKSLEY_EXCLUDES(mutex_);

  // How many bytes its engine says that a group and a call of write_ahead() should have; change
  // them while no engine is open.
  std::size_t group_bytes = std::numeric_limits<std::size_t>::max();
  std::size_t write_ahead_bytes = std::size_t{1} << 20;

  // ---- A disk without room; for tests whose own thread is the writer's ----

  // For how many bytes its engine says that there is room, and how many more there are after
  // use_reserve().
  std::uint64_t room = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t reserve = 0;
  // The arguments of the calls of Engine::reclaim().
  std::vector<std::pair<std::uint64_t, std::uint64_t>> reclaimed;

  // How often its engines have looked for a row, or made a cursor.
  std::atomic<std::uint64_t> readings = 0;

  // ---- A server on a network ----

  // What its engine says (Engine::is_on_network); change it while no engine is open.
  bool is_on_network = false;
  // Delays the engine's readings of payloads.
  SlowServer server;
  // Delays the engine's readings of single rows of the index that may not wait for long.
  SlowServer index;
  // While it is true, readings of the index fail, because no reply comes; and how many have failed.
  std::atomic<bool> has_no_reply = false;
  std::atomic<std::uint64_t> without_reply = 0;
  // While it is true, readings that may not connect fail; and how many have failed.
  std::atomic<bool> has_no_connection = false;
  std::atomic<std::uint64_t> without_connection = 0;

  // ---- For its engine ----

  // As Engine::id().
  const std::string& id() const { return id_; }
  struct Change {
    enum class Kind : std::uint8_t { kPut, kErase, kEraseRange };
    Kind kind;
    daemon::Table table;
    std::string key;
    std::string value;  // of kEraseRange: the end
  };
  // Takes the disk for an engine; false: another engine has it open.
  bool take() LOCKSLEY_EXCLUDES(mutex_);
  void give_back() LOCKSLEY_EXCLUDES(mutex_);
  // The rows that are there, synced or not. The result does not change any more.
  std::shared_ptr<const Tables> tables() const LOCKSLEY_EXCLUDES(mutex_);
  daemon::EngineDone apply(const std::vector<Change>& changes) LOCKSLEY_EXCLUDES(mutex_);
  daemon::EngineDone sync() LOCKSLEY_EXCLUDES(mutex_);
  // Makes the folder, with a file of the rows that are there.
  daemon::EngineDone copy_to(const std::filesystem::path& folder) const LOCKSLEY_EXCLUDES(mutex_);
  // Writes all that can be read once more, and syncs it.
  daemon::EngineDone write_anew() LOCKSLEY_EXCLUDES(mutex_);

 private:
  enum class Fault : std::uint8_t { kNone, kNext, kAll };
  static void apply(const Change& change, Tables& tables);
  // Whether a fault was injected for this call.
  bool takes_fault() LOCKSLEY_REQUIRES(mutex_) {
    return (fault_ == Fault::kNext ? std::exchange(fault_, Fault::kNone) : fault_) != Fault::kNone;
  }
  daemon::EngineDone sync_held() LOCKSLEY_REQUIRES(mutex_);

  const std::string id_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::shared_ptr<Tables> written_ LOCKSLEY_GUARDED_BY(mutex_) = std::make_shared<Tables>();
  Tables synced_ LOCKSLEY_GUARDED_BY(mutex_);
  std::vector<Change> unsynced_ LOCKSLEY_GUARDED_BY(mutex_);
  std::uint64_t syncs_ LOCKSLEY_GUARDED_BY(mutex_) = 0;
  Fault fault_ LOCKSLEY_GUARDED_BY(mutex_) = Fault::kNone;
  bool holds_ LOCKSLEY_GUARDED_BY(mutex_) = false;
  std::uint64_t released_ LOCKSLEY_GUARDED_BY(mutex_) = 0;  // syncs that need not wait
  bool is_held_ LOCKSLEY_GUARDED_BY(mutex_) = false;
  bool has_power_ LOCKSLEY_GUARDED_BY(mutex_) = true;
  bool is_taken_ LOCKSLEY_GUARDED_BY(mutex_) = false;
};

}  // namespace locksley::testing

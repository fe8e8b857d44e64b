// A disk for the store's tests: one that fails when it is told to, and that loses power.
#pragma once

#include <rocksdb/file_system.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "core/sync/mutex.h"

namespace locksley::testing {

// The system's files, with a memory of what a power loss would leave of those in one folder: of
// each file what was synced, of the folder the names that were there when it was last synced.
// Nothing is synced in truth, so tests are quick.
//
// Owned by the test, by shared_ptr because RocksDB's Env shares it; outlives every database that
// uses it. Any thread may call anything, except lose_power(). RocksDB's text log is not kept.
class FaultyFileSystem final : public rocksdb::FileSystemWrapper {
 public:
  // What can fail. Opening is for writing; reading never fails.
  enum class Operation : std::uint8_t { kAppend, kSync, kOpen, kRename, kClose, kSyncFolder };
  static constexpr std::size_t kOperations = 6;
  enum class Lasting : std::uint8_t { kOnce, kUntilHealed };
  // Which of the bytes stay that were appended and not synced: none; a random beginning; a
  // beginning, and the rest is zeros, or noise; some pages, and the others are zeros. Of bytes that
  // were written over synced zeros, nothing stays with kLost, and else some sectors do.
  enum class Tail : std::uint8_t { kLost, kTorn, kZeros, kNoise, kPages };

  // What is in `folder` now is on the disk. `seed` decides what is left to chance.
  FaultyFileSystem(std::filesystem::path folder, std::uint64_t seed);
  ~FaultyFileSystem() override;

  // ---- Faults ----

  // The n-th operation of this kind from now on (1: the next) fails; or that one and all later ones
  // of its kind. Bytes whose append fails are half written. Bytes whose sync fails were never
  // written, although they can be read until the power goes, and although a later sync succeeds:
  // like Linux, which forgets a dirty page that it could not write. One fault at a time.
  void fail(Operation operation, std::uint64_t n, rocksdb::IOStatus status, Lasting lasting);
  void heal();
  // Whether the fault has happened since fail().
  bool has_failed() const;
  // How many operations of this kind there were, failed ones included.
  std::uint64_t count(Operation operation) const;
  std::uint64_t count() const;  // of all kinds
  // How often a database was opened here.
  std::uint64_t databases_opened() const;

  // Operations of this kind wait until release(), for 30 s at most, and then fail.
  void hold(Operation operation);
  void release();
  // Returns true once an operation waits; false if none waits within 30 s.
  bool await_held();

  // ---- Power ----

  // After `more` operations of any kind nothing can be changed on the disk any more: all attempts
  // fail.
  void cut_power(std::uint64_t more = 0);
  bool has_power() const;
  // Restores the power as if only the process had ended: what was written is there, synced or not.
  void restore_power();
  // Call it once no database uses the folder: turns the folder into what a power loss would have
  // left; then there is power again, and no fault. Of the changes of names since the last sync of
  // the folder, a random beginning stays.
  void lose_power(Tail tail);

  // ---- rocksdb::FileSystem ----

  const char* Name() const override { return "FaultyFileSystem"; }
  rocksdb::IOStatus NewWritableFile(const std::string& name, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* result,
                                    rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus ReopenWritableFile(const std::string& name, const rocksdb::FileOptions& options,
                                       std::unique_ptr<rocksdb::FSWritableFile>* result,
                                       rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus ReuseWritableFile(const std::string& name, const std::string& old_name,
                                      const rocksdb::FileOptions& options,
                                      std::unique_ptr<rocksdb::FSWritableFile>* result,
                                      rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus NewRandomRWFile(const std::string& name, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSRandomRWFile>* result,
                                    rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus NewDirectory(const std::string& name, const rocksdb::IOOptions& options,
                                 std::unique_ptr<rocksdb::FSDirectory>* result,
                                 rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus NewLogger(const std::string& name, const rocksdb::IOOptions& options,
                              std::shared_ptr<rocksdb::Logger>* result,
                              rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus RenameFile(const std::string& from, const std::string& to,
                               const rocksdb::IOOptions& options, rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus DeleteFile(const std::string& name, const rocksdb::IOOptions& options,
                               rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus Truncate(const std::string& name, std::size_t size, const rocksdb::IOOptions& options,
                             rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus LinkFile(const std::string& from, const std::string& to,
                             const rocksdb::IOOptions& options, rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus LockFile(const std::string& name, const rocksdb::IOOptions& options,
                             rocksdb::FileLock** lock, rocksdb::IODebugContext* debug) override;

 private:
  class File;
  class ZerosAhead;
  class Folder;

  // A file, whatever its name is at the moment.
  struct Node {
    std::uint64_t size = 0;
    std::uint64_t written = 0;  // what is appended next begins here; from here to `size` there are zeros
    std::uint64_t synced = 0;   // bytes [0, synced) are on the disk, except `unwritten` and `overwritten`
    struct Stretch {
      std::uint64_t begin, end;
    };
    std::vector<Stretch> unwritten;  // a sync of them failed
    // Appended since the last sync, where there were synced zeros: any of the sectors may be on the
    // disk.
    Stretch overwritten{0, 0};
    std::optional<std::string>
        bytes;  // of one that has no name any more but would have one after a power loss
  };
  using Names = std::map<std::string, std::shared_ptr<Node>>;
  // What happened to names; null: the name is gone.
  using Renaming = std::vector<std::pair<std::string, std::shared_ptr<Node>>>;

  // Counts an operation, and returns its outcome. Waits while operations of its kind are held.
  rocksdb::IOStatus admit(Operation operation);
  // The outcome of an operation that is not counted: it only needs power.
  rocksdb::IOStatus admit_uncounted() const;
  bool is_ours(const std::string& name) const;
  // Keeps the bytes of the file that is about to lose this name.
  void set_aside(const std::string& name) LOCKSLEY_REQUIRES(mutex_);
  void rename(Renaming renaming) LOCKSLEY_REQUIRES(mutex_);
  std::shared_ptr<Node> create(const std::string& name);
  std::shared_ptr<Node> find(const std::string& name);
  static void truncated(Node& node, std::uint64_t size);
  std::string remains_of(const Node& node, const std::string& bytes, Tail tail) LOCKSLEY_REQUIRES(mutex_);

  const std::filesystem::path folder_;

  struct Fault {
    Operation operation;
    std::uint64_t at;  // as counted by counts_
    rocksdb::IOStatus status;
    Lasting lasting;
  };

  mutable Mutex mutex_;
  std::mt19937_64 random_ LOCKSLEY_GUARDED_BY(mutex_);
  Names names_ LOCKSLEY_GUARDED_BY(mutex_);                  // now
  Names names_on_disk_ LOCKSLEY_GUARDED_BY(mutex_);          // when the folder was last synced
  std::vector<Renaming> since_ LOCKSLEY_GUARDED_BY(mutex_);  // what happened in between
  std::array<std::uint64_t, kOperations> counts_ LOCKSLEY_GUARDED_BY(mutex_){};
  std::uint64_t databases_ LOCKSLEY_GUARDED_BY(mutex_) = 0;
  std::optional<Fault> fault_ LOCKSLEY_GUARDED_BY(mutex_);
  bool failed_ LOCKSLEY_GUARDED_BY(mutex_) = false;
  std::optional<std::uint64_t> power_left_ LOCKSLEY_GUARDED_BY(mutex_);  // operations; none: for ever
  std::optional<Operation> held_ LOCKSLEY_GUARDED_BY(mutex_);
  std::uint64_t waiting_ LOCKSLEY_GUARDED_BY(mutex_) = 0;
  CondVar held_changed_;
};

}  // namespace locksley::testing

#pragma once

#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "config/config.h"
#include "core/batch_journal.h"
#include "core/payload.h"
#include "daemon/store/disk_space.h"
#include "daemon/store/group_commit.h"
#include "daemon/store/reader.h"
#include "daemon/store/rows.h"

namespace rocksdb {
class Env;
}
namespace spdlog {
class logger;
}

namespace locksley::daemon {

class Compactor;
class Database;

// A batch that an earlier process left.
struct StoredBatch {
  std::uint64_t sequence = 0;
  AcceptedRow accepted;
  ChangesRow changes;  // as of no changes, if there were none
  BatchHistory history;
  std::uint64_t payload_bytes = 0;
  // What has not ended, ascending; nothing if it is over.
  std::vector<IndexRange> left;
};

// The store: batches, their payloads and their results, kept on the disk. What is in it after a crash is what
// was acknowledged, and at most what was about to be.
//
// Owned by main(); outlives the pool's threads and all batches that have a journal or payloads of it. Order
// of use: open(), recover(), start(), the rest. Writes come from the I/O thread, steps of batches (journal())
// from any thread; nothing of that blocks. Reads block on the disk.
class Store {
 public:
  struct Options {
    std::string path;
    config::Durability durability = config::Durability::kFsync;
    rocksdb::Env* env = nullptr;  // for tests that make the disk fail; null: the system's
  };

  // The errors are for the operator: they name the path, what is wrong and what to do.
  static std::expected<std::unique_ptr<Store>, std::string> open(const Options& options,
                                                                 std::shared_ptr<spdlog::logger> log);
  static std::expected<void, std::string> repair(const Options& options);
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // Every batch that there is, in the order of acceptance. The error as in open(): something is damaged.
  std::expected<void, std::string> recover(const std::function<void(StoredBatch)>& visit);
  // One that is over, as it stands in the store now. Reads the disk: some 10 us if the system has it in
  // memory. The error says why it cannot be read; one that is being opened anew is waited for, briefly.
  std::expected<StoredBatch, std::string> load(std::uint64_t sequence) const;
  // The first that no batch has had. After recover().
  std::uint64_t next_sequence() const { return next_sequence_; }

  // From now on it can be written. `on_outcome` is called by the writer's thread, in the order of the
  // tickets.
  void start(std::function<void(Outcome)> on_outcome);
  // Writes what there is, closes. Steps that are recorded later are lost, and their jobs will run again.
  void stop();

  // ---- After start() ----

  Ticket put(StoreWrite write, Urgency urgency) { return group_->put(std::move(write), urgency); }
  // A ticket not below that of any write that was put before; and whether all writes up to one are on the
  // disk, or with the system, as store.durability has it. Writes that were refused count, too.
  Ticket gathering() const { return group_->gathering(); }
  bool is_written(Ticket ticket) const { return ticket <= group_->written(); }
  // What is wrong with the disk; empty: nothing. While there is, nothing can be accepted.
  std::string error() const { return group_->error(); }
  // So many bytes of it are wanted: the files are kept from growing far beyond.
  void set_live_bytes(std::uint64_t bytes);

  // The journal of a batch, and the payloads of one that are there.
  std::unique_ptr<BatchJournal> journal(std::uint64_t sequence, PayloadParts parts = PayloadParts::kUnknown);
  std::unique_ptr<PayloadSource> payloads(std::uint64_t sequence);
  // Has the store's reader call it, for what may wait for the disk. After stop() it is dropped.
  void read(Reader::Task task) { reader_->post(std::move(task)); }

  struct Stats {
    const DurationHistogram& commit_time;
    std::uint64_t disk_bytes;
    std::uint64_t errors;
    std::optional<DiskSpace> disk;  // nothing: the system does not say
  };
  Stats stats() const;

 private:
  explicit Store(std::unique_ptr<Database> database, config::Durability durability,
                 std::shared_ptr<spdlog::logger> log);

  const std::unique_ptr<Database> database_;
  std::uint64_t next_sequence_ = 1;
  std::uint64_t first_orphan_ = 1;  // from here to next_sequence_ there may be payloads of no batch
  const std::unique_ptr<GroupCommit> group_;
  const std::unique_ptr<Compactor> compactor_;
  const std::unique_ptr<Reader> reader_;
};

}  // namespace locksley::daemon

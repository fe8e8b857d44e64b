// Makes records of batches that are in the store alone.
#pragma once

#include <chrono>
#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/pool/worker_stats.h"
#include "daemon/base/loop/io_thread.h"
#include "daemon/base/time.h"
#include "daemon/server/batches/handlers/handler_directory.h"
#include "daemon/server/batches/stored/pending_discards.h"
#include "daemon/server/records/registry.h"
#include "daemon/store/engine/engine.h"
#include "daemon/store/write/ticket.h"

namespace spdlog {
class logger;
}
namespace locksley {
class BatchObserver;
}
namespace locksley::config {
struct Config;
}

namespace locksley::daemon {

class BatchRecord;
class RestoredTimes;
class Retention;
class Store;
struct StoredBatch;

// Makes records of batches in the store: of all unfinished ones at a start, and later of a batch
// that is over and no longer in memory, when a client asks for it. StoredBatches writes their rows.
//
// Owned by Batches. The I/O thread only. Needs: there is a store. Only load() and restore() block
// on the disk.
class RestoredBatches {
 public:
  struct Parts {
    const config::Config& config;  // in force; it may change between calls
    Store* store;                  // null: there is none, and nothing is called
    PendingDiscards& discards;     // what the store has yet to write is added to what it reads
    Registry& registry;
    Retention& retention;
    BatchObserver& observer;  // of the records that are made here
    HandlerDirectory& handlers;
    RestoredTimes& times;
    const OwnedCounter& polls;  // how often the sockets have been polled; outlives it
    std::shared_ptr<spdlog::logger> log;
  };
  explicit RestoredBatches(Parts parts) : parts_(std::move(parts)) {}
  RestoredBatches(const RestoredBatches&) = delete;
  RestoredBatches& operator=(const RestoredBatches&) = delete;

  // Restores every batch of an earlier process: indexes those that are over, starts the store, and
  // calls `go_on` for each of the others, in the order of acceptance. The error is for the
  // operator. `on_outcome` is called by the store's thread.
  std::expected<void, StoreRefusal> restore(const std::function<void(StoredBatch)>& go_on,
                                            std::function<void(Outcome)> on_outcome)
      LOCKSLEY_REQUIRES(kIoThread);
  // Makes a record of the batch, as the store has it; in no registry and no lane yet.
  std::shared_ptr<BatchRecord> record_of(StoredBatch& stored) LOCKSLEY_REQUIRES(kIoThread);
  // Reads a batch that was retired. If the store is a server, this uses an open connection, while
  // other clients wait: all loads between two polls of the sockets together wait for its replies
  // for Store::kLoadPatience.
  Registry::Loaded load(std::uint64_t sequence) LOCKSLEY_REQUIRES(kIoThread);
  // The same in two parts, if another thread reads the batch: one call before Store::load(), and
  // one after it, which makes the record.
  using PendingDiscard = std::optional<PendingDiscards::Discard>;
  PendingDiscard before_load(std::uint64_t sequence) LOCKSLEY_REQUIRES(kIoThread);
  std::shared_ptr<BatchRecord> after_load(StoredBatch stored, const PendingDiscard& discard)
      LOCKSLEY_REQUIRES(kIoThread);

 private:
  // Indexes a batch that is over for retention, and for look-ups by its id.
  void index_finished(const StoredBatch& stored) LOCKSLEY_REQUIRES(kIoThread);
  // An unknown handler gets an entry: its batches wait for it.
  const HandlerDirectory::Entry& entry_for(const std::string& handler) LOCKSLEY_REQUIRES(kIoThread);

  // How long loads may still wait for the reply of a server, until the sockets are polled again.
  std::chrono::milliseconds left_to_wait() LOCKSLEY_REQUIRES(kIoThread);

  // A load that could wait for less is refused: its failure would say nothing of the server. Guess.
  static constexpr std::chrono::milliseconds kLeastWait{100};

  const Parts parts_;
  std::uint64_t polls_ LOCKSLEY_GUARDED_BY(kIoThread) = 0;      // at the last load
  Instant::duration waited_ LOCKSLEY_GUARDED_BY(kIoThread){0};  // since then, by loads
};

}  // namespace locksley::daemon

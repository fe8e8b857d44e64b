// Changes of a batch by commands and deadlines.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "daemon/base/log/rate_gate.h"
#include "daemon/base/loop/io_thread.h"
#include "daemon/server/records/batch_record.h"

namespace spdlog {
class logger;
}

namespace locksley::daemon {

class Account;
class Reader;
class StoredBatches;

// Changes of a batch that are both done in its lane and written to the store: by commands, by a
// deadline, by the failure of a batch for which it waited. The lane changes at once; the reply to a
// client waits for ticket().
//
// Owned by Batches. The I/O thread only, except where it says otherwise. Nothing blocks or fails: a
// change that the disk refuses holds, and is written later.
class BatchChanges {
 public:
  // `aside` does long work.
  BatchChanges(StoredBatches& stored, Reader& aside, std::shared_ptr<spdlog::logger> log);
  BatchChanges(const BatchChanges&) = delete;
  BatchChanges& operator=(const BatchChanges&) = delete;

  // Returns how many jobs will not run because of it. Very many scattered jobs are recorded by
  // drop_rest(); until then some of them count as queued.
  // `payer`, here and below: as in StoredBatches. `running`: whether running jobs go on.
  std::uint64_t cancel(BatchRecord& record, Account& payer, std::string reason,
                       RunningJobs running = RunningJobs::kStop) LOCKSLEY_REQUIRES(kIoThread);
  // The last step of a cancellation, for scattered jobs: another thread records them. Any thread.
  void drop_rest(std::shared_ptr<BatchRecord> record, Lane::Cancelled rest);
  // The batch's deadline has passed: running jobs go on, and no other job starts.
  void end_by_deadline(BatchRecord& record, Account& payer) LOCKSLEY_REQUIRES(kIoThread) {
    cancel(record, payer, "deadline passed", RunningJobs::kGoOn);
  }
  void set_weight(BatchRecord& record, Account& payer, std::uint32_t weight) LOCKSLEY_REQUIRES(kIoThread);
  // `slots`: 0: no bound.
  void set_slots(BatchRecord& record, Account& payer, std::uint32_t slots) LOCKSLEY_REQUIRES(kIoThread);
  void pause(BatchRecord& record, Account& payer) LOCKSLEY_REQUIRES(kIoThread);
  void resume(BatchRecord& record, Account& payer) LOCKSLEY_REQUIRES(kIoThread);
  // No more jobs will be added. Returns how many there are.
  std::uint64_t close(BatchRecord& record, Account& payer) LOCKSLEY_REQUIRES(kIoThread);
  // The connection that streamed the batch in has gone, and limits.open_timeout has passed. Nothing
  // if the batch is no longer open.
  void close_abandoned(BatchRecord& record, Account& payer) LOCKSLEY_REQUIRES(kIoThread);

  // For a reply that reports changes of the batch: StoredBatches::ticket_of_changes().
  Ticket ticket(BatchRecord& record, Account& payer) LOCKSLEY_REQUIRES(kIoThread);

 private:
  StoredBatches& stored_;
  Reader& aside_;
  const std::shared_ptr<spdlog::logger> log_;
  RateGate closed_lines_ LOCKSLEY_GUARDED_BY(kIoThread){std::chrono::milliseconds(100)};
};

}  // namespace locksley::daemon

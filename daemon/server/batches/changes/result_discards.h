// Readers that discard the results they read (RESULTS … DISCARD).
#pragma once

#include <cstdint>

#include "core/batch/result_log.h"
#include "daemon/base/loop/io_thread.h"
#include "daemon/server/records/batch_record.h"

namespace locksley::daemon {

class Reader;
class Registry;
class ResultRelief;
class Retention;
class StoredBatches;

// Discards results that a client has read, in memory and in the store, and keeps in
// BatchRecord::discarder when that client was last seen.
//
// Owned by Batches. The I/O thread only. Nothing blocks or fails.
class ResultDiscards {
 public:
  struct Parts {
    Registry& registry;
    Retention& retention;
    StoredBatches& stored;
    ResultRelief& relief;
    Reader& aside;  // frees many rows
  };
  explicit ResultDiscards(Parts parts) : parts_(parts) {}
  ResultDiscards(const ResultDiscards&) = delete;
  ResultDiscards& operator=(const ResultDiscards&) = delete;

  // Discards the results below this row, and frees their space. The row lies at `place`
  // (StoreReads::find_row(), if it is in the store alone). Needs: the record is what
  // Batches::find() returns.
  void discard_rows(BatchRecord& record, std::uint64_t row, const ResultLog::Place& place)
      LOCKSLEY_REQUIRES(kIoThread);
  // A reader that discards asks for rows, or gets some. kHasAll: it gets the last page, with all
  // rows that were left.
  enum class Discarder : std::uint8_t { kIsReading, kHasAll };
  void discarder_seen(BatchRecord& record, Discarder which) LOCKSLEY_REQUIRES(kIoThread);

 private:
  const Parts parts_;
};

}  // namespace locksley::daemon

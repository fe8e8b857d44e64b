// What can be asked of the store.
#pragma once

#include <cstdint>
#include <memory>
#include <variant>

#include "core/batch_journal.h"
#include "daemon/store/payload_parts.h"
#include "daemon/store/rows.h"
#include "proto/argument_list.h"

namespace locksley::daemon {

// What can be written. Each is there whole after a crash, or not at all; of two, the second never without the
// first.
struct AcceptBatch {
  std::uint64_t sequence;
  AcceptedRow row;
  std::shared_ptr<const proto::ArgumentList> payloads;  // null: there are none to write
};
struct AddJobs {
  std::uint64_t sequence;
  std::uint64_t first;  // index of the first
  std::shared_ptr<const proto::ArgumentList> payloads;
  ChangesRow changes;  // with the jobs
};
struct ChangeBatch {
  std::uint64_t sequence;
  ChangesRow changes;
  bool trims_payloads = false;  // those behind the number of jobs go
};
struct RecordStep {
  std::uint64_t sequence;
  BatchStep step;
  PayloadParts parts = PayloadParts::kUnknown;
};
struct ForgetBatch {
  std::uint64_t sequence;
  PayloadParts parts = PayloadParts::kUnknown;
  bool has_one_step = false;  // it was over with its first
};
// How soon: at once, with an outcome, as somebody waits for it; or with the next group, kDelay later at most
// (GroupCommit), and nobody is told.
enum class Urgency : std::uint8_t { kAwaited, kWithNext };

using StoreWrite = std::variant<AcceptBatch, AddJobs, ChangeBatch, RecordStep, ForgetBatch>;

}  // namespace locksley::daemon

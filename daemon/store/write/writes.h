// The writes that the store takes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <variant>

#include "core/base/index_range.h"
#include "core/batch/batch_journal.h"
#include "daemon/store/rows/payload_parts.h"
#include "daemon/store/rows/rows.h"
#include "daemon/store/rows/stored_rows.h"
#include "daemon/store/write/ticket.h"
#include "proto/argument_list.h"

namespace locksley::daemon {

constexpr Ticket kAllSettled = std::numeric_limits<Ticket>::max();

// Payloads of a large write that lie in groups before its own (StagedWrites).
struct PayloadsAhead {
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
  bool were_begun = false;  // some were written ahead; `count` is 0 again if a later part failed
};
struct AcceptBatch {
  std::uint64_t sequence;
  AcceptedRow row;
  std::shared_ptr<const proto::ArgumentList> payloads;  // null: the batch has no payloads
  Ticket settled = kAllSettled;                         // as in AddJobs
  PayloadsAhead ahead = {};
};
// A pattern that an earlier version wrote into the row of the acceptance gets a row of its own, or
// none if no job of the batch can run again.
struct MovePattern {
  std::uint64_t sequence;
  AcceptedRow row;
  bool is_wanted;
};
struct AddJobs {
  std::uint64_t sequence;
  std::uint64_t first;  // index of the first job
  std::shared_ptr<const proto::ArgumentList> payloads;
  ChangesRow changes;  // its counts include the new jobs
  // The last group of writes whose outcome was known when `first` was chosen.
  Ticket settled = kAllSettled;
  PayloadsAhead ahead = {};
};
struct ChangeBatch {
  std::uint64_t sequence;
  ChangesRow changes;
  bool trims_payloads = false;          // deletes the payloads from changes.jobs on
  IndexRange freed_rows{0, 0};          // deletes the results of steps whose first row is in it
  bool may_have_marks = true;           // some of the batch's jobs were not ok
  bool may_have_results_inside = true;  // the row of the batch's end may have its results
  bool is_told = false;                 // tells_of_ends(), and that part is in the store already
};
// Whether the row records the outcome of batches for which this batch waits or has waited. Once
// those batches are deleted, no other row records it.
inline bool tells_of_ends(const ChangesRow& row) {
  return row.is_released || row.is_cancelled || !row.satisfied.empty();
}
struct RecordStep {
  std::uint64_t sequence;
  BatchStep step;
  PayloadParts parts = PayloadParts::kUnknown;
};
struct ForgetBatch {
  std::uint64_t sequence;
  StoredRows rows = {};
};
// CUSTOMER SET and CUSTOMER DEL. The whole row; a row without settings is deleted.
struct SetCustomer {
  CustomerRow row;
};
// Numbers of batches below this one may be in use (Store::begin_numbers()).
struct TakeNumbers {
  std::uint64_t below;
};
// kAwaited: a client waits, so the group is written at once and its outcome is reported. kWithNext:
// the write goes with the next group, at most GroupCommit::kDelay later, and no outcome is reported
// for it alone.
enum class Urgency : std::uint8_t { kAwaited, kWithNext };

// Each write is atomic: after a crash it is in the store completely or not at all. If a write is in
// the store, so are all writes that were put before it, except large writes of other batches that
// it does not wait for (StagedWrites). One exception: the part of a change that reports the ends of
// other batches may be in the store before the rest of the change (tells_of_ends()).
//
// std::monostate: a write that a later one has replaced (PendingWrites), or Store::put_marker().
using StoreWrite = std::variant<std::monostate, AcceptBatch, MovePattern, AddJobs, ChangeBatch, RecordStep,
                                ForgetBatch, SetCustomer, TakeNumbers>;

inline std::uint64_t sequence_of(const StoreWrite& write) {
  return std::visit(
      [](const auto& each) {
        if constexpr (requires { each.sequence; }) {
          return each.sequence;
        } else {
          return ~std::uint64_t{0};
        }
      },
      write);
}
inline bool is_deletion(const StoreWrite& write) { return std::holds_alternative<ForgetBatch>(write); }
// Whether the write deletes results that a client has discarded.
inline bool is_discard(const StoreWrite& write) {
  const auto* change = std::get_if<ChangeBatch>(&write);
  return change != nullptr && !change->freed_rows.empty();
}
// The cost of a write besides its payloads and results: the writer needs 6 to 40 us for it, in
// which a slow disk writes about so many bytes.
constexpr std::size_t kCostOfWrite = 2048;

// The cost of one range of jobs: its bytes in the row, and the time to encode it.
constexpr std::size_t kCostOfRange = 8;

// The ranges of jobs that a step lists: after a retry of very many jobs they may be millions.
inline std::size_t ranges_in(const BatchStep& step) {
  return step.ended.size() + step.failed.size() + step.requeued.size() + step.job_attempts.size();
}

// How long the writer needs for the write, as the number of bytes that a slow disk writes in that
// time. 0 for an empty write.
inline std::size_t cost_of(const StoreWrite& write) {
  if (std::holds_alternative<std::monostate>(write)) return 0;
  const auto bytes_of = [](const std::shared_ptr<const proto::ArgumentList>& payloads) -> std::size_t {
    return payloads == nullptr ? 0 : payloads->payload_bytes() + payloads->size() * sizeof(std::uint32_t);
  };
  if (const auto* accept = std::get_if<AcceptBatch>(&write)) {
    const auto& range = accept->row.range;
    const std::size_t pattern = range && range->payload ? range->payload->size() : 0;
    return kCostOfWrite + bytes_of(accept->payloads) + pattern;
  }
  if (const auto* add = std::get_if<AddJobs>(&write)) return kCostOfWrite + bytes_of(add->payloads);
  if (const auto* record = std::get_if<RecordStep>(&write)) {
    return kCostOfWrite + record->step.rows.size_bytes + ranges_in(record->step) * kCostOfRange;
  }
  return kCostOfWrite;
}

// The memory, in bytes, of the results that wait for the disk, and of the patterns of earlier
// versions; 0 for other writes. A step counts at least kCostOfWrite, because very many steps of one
// job each, as after a retry of scattered jobs, take the writer long, and a client's write waits
// for them. Lists of jobs count only up to kMostRanges ranges, as many as the results of a few
// thousand jobs may have: longer lists come from a retry, or from the end of a batch, and executors
// must not wait for them. A retry is charged for its lists (WriteCharges).
inline std::size_t weight_of(const StoreWrite& write) {
  constexpr std::size_t kMostRanges = 4096;
  if (const auto* move = std::get_if<MovePattern>(&write)) return move->row.range->payload->size();
  const auto* step = std::get_if<RecordStep>(&write);
  if (step == nullptr) return 0;
  const BatchStep& each = step->step;
  std::size_t notes = 0;
  for (const NotedJob& note : each.notes) notes += sizeof(NotedJob) + note.text.size();
  const std::size_t memory = sizeof(StoreWrite) + each.rows.size_bytes + notes +
                             std::min(ranges_in(each), kMostRanges) * sizeof(IndexRange);
  return std::max(kCostOfWrite, memory);
}

}  // namespace locksley::daemon

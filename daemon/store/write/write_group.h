// From the writes of a group to rows.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "daemon/store/engine/engine.h"
#include "daemon/store/engine/writer_thread.h"
#include "daemon/store/write/staged_writes.h"
#include "daemon/store/write/writes.h"

namespace locksley::daemon {

class StepCompactor;

// Puts the writes of a group into groups of the engine. The payloads of large batches are written
// while they are encoded, so that they are not in memory twice. All other rows go into one last
// commit, and payloads do not count without these rows: a group that fails has no effect, and a
// crash leaves no half of a group.
//
// Rows are put in the order of the batches, and those of one batch in the order of its writes. An
// engine that keeps rows in the order of their keys then finds the place of most rows next to the
// row before. A group is atomic, so no reader sees the order.
//
// Lives on the stack of the writer's thread: calls of add, with writes that outlive the group, then
// finish(). One of these calls has all writes of a batch, but for a change, which another one may
// have. They block on the disk. After a failure, nothing more is added and finish() returns the
// error.
class WriteGroup {
 public:
  // Both outlive it. `failed_ranges`: as kFailedRangesInRow; fewer in tests.
  WriteGroup(Engine& engine, StepCompactor& compactor, std::uint64_t failed_ranges)
      : engine_(engine), compactor_(compactor), failed_ranges_(failed_ranges), last_(engine.new_group()) {}

  void add(std::span<const StoreWrite> writes) LOCKSLEY_REQUIRES(kStoreWriter);
  // The same as add() for writes that no group has had before. If one of them forgets a batch, the
  // writes of that batch before it are left out, and rows that only these would have written are
  // not deleted.
  void add_new(std::span<const StoreWrite> writes) LOCKSLEY_REQUIRES(kStoreWriter);

  // Payloads of a write that a later group has.
  StagedWrites::Written add_part(const StagedWrites::Part& part) LOCKSLEY_REQUIRES(kStoreWriter);

  // The error is that of the first write that failed.
  EngineDone finish(Engine::Sync sync) LOCKSLEY_REQUIRES(kStoreWriter);
  // In place of finish(), if the group has only a part: the write that the part belongs to will
  // make it safe.
  EngineDone finish_part(Engine::Sync sync) LOCKSLEY_REQUIRES(kStoreWriter);

 private:
  // A write, and the batch to which it belongs. Writes lie in memory in the order in which they
  // came.
  struct Ordered {
    std::uint64_t sequence;
    const StoreWrite* write;
    friend auto operator<=>(const Ordered&, const Ordered&) = default;
  };
  enum class Age { kNew, kKept };
  void add_by_batch(std::span<const StoreWrite> writes, Age age) LOCKSLEY_REQUIRES(kStoreWriter);
  // The writes of one batch.
  void add_all(std::span<const Ordered> of_batch) LOCKSLEY_REQUIRES(kStoreWriter);
  void add_all_new(std::span<const Ordered> of_batch) LOCKSLEY_REQUIRES(kStoreWriter);
  void add_one(const StoreWrite& write) LOCKSLEY_REQUIRES(kStoreWriter);

  void put(std::monostate) {}
  void put(const AcceptBatch& accept) LOCKSLEY_REQUIRES(kStoreWriter);
  void put(const MovePattern& move) LOCKSLEY_REQUIRES(kStoreWriter);
  void put(const AddJobs& add) LOCKSLEY_REQUIRES(kStoreWriter);
  void put(const ChangeBatch& change) LOCKSLEY_REQUIRES(kStoreWriter);
  void put(const RecordStep& record) LOCKSLEY_REQUIRES(kStoreWriter);
  void put(const ForgetBatch& forget) LOCKSLEY_REQUIRES(kStoreWriter);
  void put(const SetCustomer& set) LOCKSLEY_REQUIRES(kStoreWriter);
  void put(const TakeNumbers& take) LOCKSLEY_REQUIRES(kStoreWriter);

  void put_pattern(std::uint64_t sequence, std::string_view pattern);
  void put_changes(std::uint64_t sequence, const ChangesRow& changes) LOCKSLEY_REQUIRES(kStoreWriter);
  // Those from `from` on, of which the first has the index `first`.
  void put_payloads(std::uint64_t sequence, std::uint64_t first, const proto::ArgumentList& payloads,
                    std::uint64_t from) LOCKSLEY_REQUIRES(kStoreWriter);
  // At most about `most_bytes`.
  StagedWrites::Written put_chunks(Engine::Group& into, std::uint64_t sequence, std::uint64_t first,
                                   const proto::ArgumentList& payloads, std::uint64_t from,
                                   std::size_t most_bytes) LOCKSLEY_REQUIRES(kStoreWriter);
  Engine::Group& large_payloads();
  void flush_payloads() LOCKSLEY_REQUIRES(kStoreWriter);
  void put_end(const RecordStep& end) LOCKSLEY_REQUIRES(kStoreWriter);
  // Deletes the results inside the row of a batch's end, if they are there.
  void free_results_inside(std::uint64_t sequence) LOCKSLEY_REQUIRES(kStoreWriter);
  void delete_failed(std::uint64_t sequence) LOCKSLEY_REQUIRES(kStoreWriter);
  void delete_steps(std::uint64_t sequence, std::uint64_t count) LOCKSLEY_REQUIRES(kStoreWriter);
  void delete_payloads(std::uint64_t sequence, PayloadParts parts) LOCKSLEY_REQUIRES(kStoreWriter);
  void delete_parts(Table table, std::uint64_t sequence);
  void delete_prefix(Table table, std::string_view prefix);
  // The rows of the batch from `low` on and below `high`.
  void delete_between(Table table, std::string_view low, std::string_view high);

  Engine& engine_;
  StepCompactor& compactor_;
  const std::uint64_t failed_ranges_;
  std::unique_ptr<Engine::Group> payloads_;  // of large batches; null: there are none
  const std::unique_ptr<Engine::Group> last_;
  // Of the batch whose writes are being added:
  struct OfBatch {
    bool has_rows = false;           // this group has rows of it
    const BatchStep* end = nullptr;  // its end, if the row of that has results inside
    bool has_no_end = false;         // its only step was left out, so it has no rows of a step
  } of_batch_;
  EngineDone ahead_;  // what write_ahead() said
};

}  // namespace locksley::daemon

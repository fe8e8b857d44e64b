// Turns the writes of a group into rows.
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
// Lives on the stack of the writer's thread, which calls add(), add_new() or add_part(), with
// writes that outlive the group, and then finish(). All writes of a batch come in one call of add()
// or add_new(), except a change, which may come in another one. The calls block on the disk. After
// a failure, nothing more is added and finish() returns the error.
class WriteGroup {
 public:
  // The engine and the compactor outlive the group. `failed_ranges`: kFailedRangesInRow, or fewer
  // in tests.
  WriteGroup(Engine& engine, StepCompactor& compactor, std::uint64_t failed_ranges)
      : engine_(engine), compactor_(compactor), failed_ranges_(failed_ranges), last_(engine.new_group()) {}

  void add(std::span<const StoreWrite> writes) LOCKSLEY_REQUIRES(kStoreWriter);
  // The same as add(), for writes that no group has had before. If one of them deletes a batch, the
  // writes of that batch before it are left out, and rows that only these would have written are
  // not deleted.
  void add_new(std::span<const StoreWrite> writes) LOCKSLEY_REQUIRES(kStoreWriter);

  // Adds payloads of a write that a later group has. Returns how many were added.
  StagedWrites::Written add_part(const StagedWrites::Part& part) LOCKSLEY_REQUIRES(kStoreWriter);

  // The error is that of the first write that failed.
  EngineDone finish(Engine::Sync sync) LOCKSLEY_REQUIRES(kStoreWriter);
  // Called in place of finish() if the group has only a part of a later write: the commit of that
  // write will make the part durable.
  EngineDone finish_part(Engine::Sync sync) LOCKSLEY_REQUIRES(kStoreWriter);

 private:
  // A write, and the batch to which it belongs. The pointers sort in the order in which the writes
  // came, because the writes lie in one array.
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
  // Puts the payloads from number `from` on. `first`: the index of the job of payload 0.
  void put_payloads(std::uint64_t sequence, std::uint64_t first, const proto::ArgumentList& payloads,
                    std::uint64_t from) LOCKSLEY_REQUIRES(kStoreWriter);
  // The same, but stops after about `most_bytes`. Returns how much was put.
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
  // Deletes the rows of the batch from `low` on and below `high`.
  void delete_between(Table table, std::string_view low, std::string_view high);

  Engine& engine_;
  StepCompactor& compactor_;
  const std::uint64_t failed_ranges_;
  std::unique_ptr<Engine::Group> payloads_;  // of large batches; null: there are none
  const std::unique_ptr<Engine::Group> last_;
  // Of the batch whose writes are being added:
  struct OfBatch {
    bool has_rows = false;           // this group has rows of it
    const BatchStep* end = nullptr;  // its last step, if the row of its end has results inside
    bool has_no_end = false;         // its only step was left out, so it has no rows of a step
  } of_batch_;
  EngineDone ahead_;  // the error of the first write_ahead() that failed
};

}  // namespace locksley::daemon

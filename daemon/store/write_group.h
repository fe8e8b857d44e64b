#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "daemon/store/engine.h"
#include "daemon/store/writer_thread.h"
#include "daemon/store/writes.h"

namespace locksley::daemon {

class StepCompactor;

// Puts the writes of a group into groups of the engine. The payloads of large batches are
// written while they are encoded, so that they are not in memory twice. All other rows go into one
// last commit, and payloads do not count without these rows: a group that fails has no effect, and a
// crash leaves no half of a group.
//
// Lives on the stack of the writer's thread: add_new() or add() the writes, which outlive the group, then finish(). They
// block on the disk. After a failure, nothing more is added and finish() returns the error.
class WriteGroup {
 public:
  // Both outlive it. `failed_ranges`: as kFailedRangesInRow; fewer in tests.
  WriteGroup(Engine& engine, StepCompactor& compactor, std::uint64_t failed_ranges)
      : engine_(engine), compactor_(compactor), failed_ranges_(failed_ranges), last_(engine.new_group()) {}

  void add(const StoreWrite& write) LOCKSLEY_REQUIRES(kStoreWriter);
  // The same for writes that no group has had before. If one of them forgets a batch, the writes of that batch before it
  // are left out, and what only they would have written is not deleted. Once.
  void add_new(std::span<const StoreWrite> writes) LOCKSLEY_REQUIRES(kStoreWriter);

  // The error is that of the first write that failed.
  EngineDone finish(Engine::Sync sync) LOCKSLEY_REQUIRES(kStoreWriter);

 private:
  void put(std::monostate) {}
  void put(const AcceptBatch& accept) LOCKSLEY_REQUIRES(kStoreWriter);
  void put(const AddJobs& add) LOCKSLEY_REQUIRES(kStoreWriter);
  void put(const ChangeBatch& change) LOCKSLEY_REQUIRES(kStoreWriter);
  void put(const RecordStep& record) LOCKSLEY_REQUIRES(kStoreWriter);
  void put(const ForgetBatch& forget) LOCKSLEY_REQUIRES(kStoreWriter);
  void put(const SetCustomer& set) LOCKSLEY_REQUIRES(kStoreWriter);

  void put_changes(std::uint64_t sequence, const ChangesRow& changes) LOCKSLEY_REQUIRES(kStoreWriter);
  void put_payloads(std::uint64_t sequence, std::uint64_t first, const proto::ArgumentList& payloads)
      LOCKSLEY_REQUIRES(kStoreWriter);
  Engine::Group& large_payloads();
  void flush_payloads() LOCKSLEY_REQUIRES(kStoreWriter);
  void put_end(const RecordStep& end) LOCKSLEY_REQUIRES(kStoreWriter);
  // Deletes the results inside the row of a batch's end, if they are there.
  void free_results_inside(std::uint64_t sequence) LOCKSLEY_REQUIRES(kStoreWriter);
  void delete_failed(std::uint64_t sequence) LOCKSLEY_REQUIRES(kStoreWriter);
  void delete_steps(std::uint64_t sequence, std::uint64_t count) LOCKSLEY_REQUIRES(kStoreWriter);
  void delete_payloads(std::uint64_t sequence, PayloadParts parts) LOCKSLEY_REQUIRES(kStoreWriter);
  void delete_parts(Table table, std::uint64_t sequence);
  void delete_prefix(Table table, std::string_view prefix, std::uint64_t sequence);
  // The rows of this batch from `low` on and below `high`.
  void delete_between(Table table, std::string_view low, std::string_view high, std::uint64_t sequence);

  // A batch that one of the writes of add_new() forgets, and the place of that write.
  struct Forgotten {
    std::uint64_t sequence;
    std::size_t place;
    bool has_no_end = false;  // its only step was left out, so it has no rows of a step
  };
  Forgotten* find_forgotten(std::uint64_t sequence);

  Engine& engine_;
  StepCompactor& compactor_;
  const std::uint64_t failed_ranges_;
  std::unique_ptr<Engine::Group> payloads_;  // of large batches; null: there are none
  const std::unique_ptr<Engine::Group> last_;
  // Batches that this group has rows of, each with its end, if the row of that has results inside.
  std::unordered_map<std::uint64_t, const BatchStep*> touched_;
  std::vector<Forgotten> forgotten_;  // by sequence
  EngineDone ahead_;                  // what write_ahead() said
};

}  // namespace locksley::daemon

#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "daemon/server/batch_record.h"
#include "daemon/server/due_queue.h"
#include "daemon/server/retained.h"
#include "daemon/server/server_stats.h"
#include "daemon/server/tenants.h"

namespace locksley::daemon {

// The batches that can be asked for by their id: those that are active, and those that are over and retained.
// An id is its tenant's own: several tenants may have one of the same id. Knows their order of submission,
// what is due when (deadlines, closing of abandoned open batches, retention, progress events), and how many
// jobs and bytes wait in all.
//
// Of a batch that is over and in the store nothing but its place stays in memory when retire() was called
// (RetainedBatches); the rest is loaded when somebody asks for it. The last that were asked for stay for a
// while. What is over changes by go_on() alone, so a record that somebody still holds is as good as one that
// is loaded anew, or shows the batch as it was before it went on.
//
// Owned by the Server; every call is made on the I/O thread. What loads blocks on the disk, for some 10 us as
// a rule; nothing else does. A look-up is a hash, adding, removing and listing are O(log n). Allocation and
// loading fail. What is to happen to a batch that is due is the caller's part: the registry neither runs nor
// cancels anything.
class Registry {
 public:
  // A batch that was retired, from the store; the error says why it cannot be read.
  using Loaded = std::expected<std::shared_ptr<BatchRecord>, std::string>;
  using Load = std::function<Loaded(std::uint64_t sequence)>;

  explicit Registry(ServerStats& stats);
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;

  void load_with(Load load) { load_ = std::move(load); }

  // Whose batches there are; and what they have in use, which is kept up to date here.
  Tenants& tenants() { return tenants_; }
  Tenant& tenant_of(BatchRecord& record);

  // Null if the tenant has none of this id. Lives until the next call of something that is not const, unless
  // it is held. The error: there may be one, but it cannot be read at the moment.
  using Found = std::expected<BatchRecord*, std::string>;
  Found find(const Tenant& tenant, std::string_view id);
  // Wherever it is. As find().
  Found find(std::uint64_t sequence);
  // Loads nothing; in very rare cases says so of one that is free.
  bool may_be_taken(const Tenant& tenant, std::string_view id) const;

  // For the next batch: by it LIST orders.
  std::uint64_t take_sequence() { return next_sequence_++; }
  // All below are taken.
  void begin_at(std::uint64_t sequence) { next_sequence_ = sequence; }
  // Takes in a batch whose id and sequence are not in use.
  void add(std::shared_ptr<BatchRecord> record);

  // A RUN of which something is due, or whose handler may change, until update() sees that it is over: nobody
  // finds it by its id, and it is in no list.
  void add_run(std::shared_ptr<BatchRecord> record);

  // The batch leaves: it is over and was forgotten or its time is up. False if it is not here, or not over.
  bool forget(BatchRecord& record);

  // The batch, which is over, leaves the memory; the store has it.
  void retire(BatchRecord& record);
  // One that is over and in the store, and is not loaded.
  void retain(const RetainedBatch& batch);
  RetainedBatches& retained() { return retained_; }
  const RetainedBatches& retained() const { return retained_; }
  // It is forgotten. What it was; none if it is not retained.
  std::optional<RetainedBatch> forget_retained(std::uint64_t sequence);

  // Brings the counters of waiting jobs and bytes up to date with `status`, and moves a batch that is over
  // from the active to the retained, where it is due to be forgotten after its time. True if this call saw it
  // end. For batches that are not in the registry (RUN), too: they count against the same limits.
  bool update(BatchRecord& record, const BatchStatus& status, Instant now);
  // One that was over is so no longer: back from the retained to the active, and to memory for good, if it
  // was retired. What it was as a retired one; none if it was not.
  std::optional<RetainedBatch> go_on(const std::shared_ptr<BatchRecord>& record, const BatchStatus& status);
  // A batch was accepted, or grew: it counts from now on.
  void count(BatchRecord& record, std::uint64_t jobs, std::uint64_t bytes);
  // What its payloads come to, wherever they are, as its tenant's quota counts them until it is over.
  void count_payloads(BatchRecord& record, std::uint64_t bytes);

  std::uint64_t queued_jobs() const { return queued_jobs_; }  // accepted, not ended
  // Of payloads whose batch is not over, or may go on without a store to read them from.
  std::uint64_t queued_bytes() const { return queued_bytes_; }
  std::size_t size() const { return by_id_.size() + retained_.size(); }
  std::size_t active() const { return active_.size(); }

  // Newest first, those submitted before `cursor` (0: from the newest on), as long as `visit` returns true.
  // Returns the cursor to go on from, which stays right while batches come and go; 0 if there are no more.
  // `active_only` passes over those that are over without looking at them, `tenant` over those of others.
  // Looks at no more than `most` batches, also such, where one that has to be loaded counts as kLoadCost. The
  // error as of find().
  struct Listing {
    std::uint64_t cursor = 0;
    bool active_only = false;
    const Tenant* tenant = nullptr;  // null: of all
    std::size_t most = 0;
  };
  std::expected<std::uint64_t, std::string> list(const Listing& listing,
                                                 const std::function<bool(BatchRecord&)>& visit);
  static constexpr std::size_t kLoadCost = 40;  // 20 us, where a look takes 0.5

  // Whether it is true of every active batch; looks until it is not. O(active).
  bool all_active(const std::function<bool(const BatchRecord&)>& is_true) const;
  // Every active batch, in the order of submission; for metrics. O(active).
  void visit_active(const std::function<void(const BatchRecord&)>& visit) const;

  // Every active batch, and every RUN of which something is due. O(active).
  void change_active(const std::function<void(BatchRecord&)>& change);

  DueQueue& due() { return due_; }
  // Sets or moves what is due of a batch; kNever: nothing.
  void schedule(BatchRecord& record, Due kind, Instant at);
  // A RUN, too, if something may be due of it. Null if it is not in memory any more.
  BatchRecord* by_sequence(std::uint64_t sequence) const;

 private:
  // What a batch is found by. The id lies in the batch.
  struct Key {
    std::uint32_t tenant;
    std::string_view id;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const {
      // Any odd constant: the hash of the id is spread already.
      return std::hash<std::string_view>()(key.id) + key.tenant * std::size_t{0x9E3779B97F4A7C15};
    }
  };
  Key key_of(BatchRecord& record) { return {tenant_of(record).number, record.id()}; }
  Loaded loaded(std::uint64_t sequence);
  void count_retained();
  static Instant& instant_of(BatchRecord& record, Due kind);
  void set_counts(BatchRecord& record, std::uint64_t jobs, std::uint64_t bytes);

  ServerStats& stats_;
  Tenants tenants_;
  std::unordered_map<Key, std::shared_ptr<BatchRecord>, KeyHash> by_id_;
  std::map<std::uint64_t, BatchRecord*> by_sequence_;
  std::map<std::uint64_t, BatchRecord*> active_;
  RetainedBatches retained_;
  Load load_;
  // The last that were loaded, the latest last.
  static constexpr std::size_t kMostLoaded = 64;  // guess: those that a few clients go on asking for
  std::vector<std::shared_ptr<BatchRecord>> loaded_;
  std::unordered_map<std::uint64_t, std::shared_ptr<BatchRecord>> runs_;  // by sequence
  DueQueue due_;
  std::uint64_t next_sequence_ = 1;
  std::uint64_t queued_jobs_ = 0;
  std::uint64_t queued_bytes_ = 0;
};

}  // namespace locksley::daemon

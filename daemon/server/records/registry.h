// The registry: finds batches by id, and keeps them in the order of their submission.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/base/loop/io_thread.h"
#include "daemon/metrics/server_stats.h"
#include "daemon/server/accounts/customers.h"
#include "daemon/server/accounts/tenants.h"
#include "daemon/server/records/active_runs.h"
#include "daemon/server/records/batch_charges.h"
#include "daemon/server/records/batch_record.h"
#include "daemon/server/records/due_queue.h"
#include "daemon/server/records/forgotten_ids.h"
#include "daemon/server/records/loaded_batches.h"
#include "daemon/server/records/retained.h"
#include "daemon/server/records/sequence_map.h"
#include "daemon/server/records/sequence_numbers.h"
#include "daemon/server/records/sharded_map.h"

namespace locksley::daemon {

// All batches that have an id: active batches, and batches that are over and retained. An id
// belongs to its tenant: batches of several tenants may have the same id. The registry knows the
// order of submission, and what is due when (deadlines, closing of abandoned open batches,
// retention, progress events). It keeps what belongs to all batches together: their sequence
// numbers, what they are charged, and the batches of RUN, which have no id.
//
// After retire() memory keeps only the place of a batch that is over and in the store
// (RetainedBatches). Its record is loaded when a client asks for it; the records that were loaded
// last stay in memory for a while. A batch that is over changes only if it goes on (go_on()) or
// loses results (RESULTS DISCARD). So a caller may keep a loaded record: it shows the batch as the
// store has it, or as it was before such a change.
//
// Owned by Batches; the I/O thread only. Functions that may load a batch block on the disk, usually
// for some 20 us; no other function blocks. A look-up costs one hash; adding, removing and listing
// are O(log n). Allocation and loading may fail. The registry says what is due; its caller acts on
// it.
class Registry {
 public:
  // Loads a batch that was retired from the store; the error says why it cannot be read.
  using Loaded = std::expected<std::shared_ptr<BatchRecord>, std::string>;
  using Load = std::function<Loaded(std::uint64_t sequence)>;

  // `tenants` outlives the registry and every record, also one that a posted function holds.
  Registry(Tenants& tenants, ServerStats& stats);
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;

  void load_with(Load load) LOCKSLEY_REQUIRES(kIoThread) { load_ = std::move(load); }

  // All tenants. The registry charges their accounts with what each has in use.
  Tenants& tenants() LOCKSLEY_REQUIRES(kIoThread) { return tenants_; }
  const Tenants& tenants() const LOCKSLEY_REQUIRES(kIoThread) { return tenants_; }
  // The tenant that owns the batch.
  Tenant& tenant_of(BatchRecord& record) LOCKSLEY_REQUIRES(kIoThread) { return charges_.tenant_of(record); }
  Customers& customers() LOCKSLEY_REQUIRES(kIoThread) { return customers_; }
  const Customers& customers() const LOCKSLEY_REQUIRES(kIoThread) { return customers_; }
  BatchCharges& charges() LOCKSLEY_REQUIRES(kIoThread) { return charges_; }
  const BatchCharges& charges() const LOCKSLEY_REQUIRES(kIoThread) { return charges_; }
  SequenceNumbers& numbers() LOCKSLEY_REQUIRES(kIoThread) { return numbers_; }
  ActiveRuns& runs() LOCKSLEY_REQUIRES(kIoThread) { return runs_; }
  const ActiveRuns& runs() const LOCKSLEY_REQUIRES(kIoThread) { return runs_; }

  // Null if the tenant has no batch of this id. The record lives until the next call of a function
  // that is not const; a caller that needs it longer keeps shared(). The error: the batch may
  // exist, but cannot be read at the moment.
  using Found = std::expected<BatchRecord*, std::string>;
  Found find(const Tenant& tenant, std::string_view id) LOCKSLEY_REQUIRES(kIoThread);
  // The same if its record is in memory; null otherwise, also for a record that find() has loaded.
  // Never blocks.
  BatchRecord* find_in_memory(const Tenant& tenant, std::string_view id) const LOCKSLEY_REQUIRES(kIoThread);
  // The same by sequence number, in memory or not.
  Found find(std::uint64_t sequence) LOCKSLEY_REQUIRES(kIoThread);
  // The result of find() without a load. For callers that must not wait for a store on another
  // machine: if there is a batch to load, another thread loads it first (BatchLoads).
  struct Known {
    BatchRecord* record = nullptr;  // as find()
    std::uint64_t to_load = 0;      // the sequence number of the batch that find() would load first; 0: none
  };
  Known find_known(const Tenant& tenant, std::string_view id) const LOCKSLEY_REQUIRES(kIoThread);
  // The records that were loaded last, and the loads that another thread has begun.
  LoadedBatches& loaded() LOCKSLEY_REQUIRES(kIoThread) { return loaded_; }
  // Whether the id is in use. Loads nothing, so it compares hashes of retained batches: in very
  // rare cases it returns true for an id that is free.
  bool may_be_taken(const Tenant& tenant, std::string_view id) const LOCKSLEY_REQUIRES(kIoThread);

  // Adds a batch. Needs: its id and its sequence number are not in use.
  void add(std::shared_ptr<BatchRecord> record) LOCKSLEY_REQUIRES(kIoThread);

  // Adds the batch of a RUN to runs(), until update() sees that it is over.
  void add_run(const std::shared_ptr<BatchRecord>& record) LOCKSLEY_REQUIRES(kIoThread);

  // Removes a batch that is over. False, without effect, if it is not over or is not registered.
  bool forget(BatchRecord& record) LOCKSLEY_REQUIRES(kIoThread);

  // Remembers that an admin has forgotten its own batch with this id; and whether it has
  // (ForgottenIds).
  void admin_forgot(const Tenant& admin, std::string_view id) LOCKSLEY_REQUIRES(kIoThread) {
    forgotten_.add(retained_.hash_of(admin.number, id));
  }
  bool has_admin_forgotten(const Tenant& admin, std::string_view id) const LOCKSLEY_REQUIRES(kIoThread) {
    return forgotten_.contains(retained_.hash_of(admin.number, id));
  }

  // Removes the record from memory and keeps its place. Needs: the batch is over, and its end is in
  // the store.
  void retire(BatchRecord& record) LOCKSLEY_REQUIRES(kIoThread);
  // At the start: restore() adds batches that are over and in the store, in the order of their
  // sequence numbers, without loading them; then restored() makes them known. In between no batch
  // is added, retired or looked up.
  void restore(const RetainedBatch& batch) LOCKSLEY_REQUIRES(kIoThread);
  void restored() LOCKSLEY_REQUIRES(kIoThread);
  RetainedBatches& retained() LOCKSLEY_REQUIRES(kIoThread) { return retained_; }
  const RetainedBatches& retained() const LOCKSLEY_REQUIRES(kIoThread) { return retained_; }
  // Removes a retained batch, and returns its entry; none if it is not retained.
  std::optional<RetainedBatch> forget_retained(std::uint64_t sequence) LOCKSLEY_REQUIRES(kIoThread);

  // Brings the counts of queued jobs and bytes up to date with `status`. A batch that is over
  // leaves the active batches, and is due to be forgotten after its retention. True if this call
  // saw the batch end. Batches of RUN are updated, too: they count towards the same limits.
  bool update(BatchRecord& record, const BatchStatus& status, Instant now) LOCKSLEY_REQUIRES(kIoThread);
  // The batch was over and goes on (RETRY): it becomes active again, and its record stays in
  // memory. Returns its entry among the retired batches; none if it was not retired.
  std::optional<RetainedBatch> go_on(const std::shared_ptr<BatchRecord>& record, const BatchStatus& status)
      LOCKSLEY_REQUIRES(kIoThread);

  // The most bytes that memory keeps of a batch that is over and in the store alone
  // (RetainedBatches).
  static constexpr std::uint64_t kRetainedBytes = 112;
  // For tests.
  std::size_t size() const LOCKSLEY_REQUIRES(kIoThread) { return by_id_.size() + retained_.size(); }

  std::size_t active() const LOCKSLEY_REQUIRES(kIoThread) { return active_.size(); }

  // Visits batches, newest first, beginning with the newest before `cursor` (0: the newest of all),
  // until `visit` returns false. Returns the cursor to go on from, 0 if there are no more batches;
  // a cursor stays valid while batches come and go. `active_only` skips batches that are over, at
  // no cost; `tenant` skips batches of other tenants. Ends after `most` batches, including those of
  // other tenants; a batch that has to be loaded counts as kLoadCost. The error is that of find().
  struct Listing {
    std::uint64_t cursor = 0;
    bool active_only = false;
    const Tenant* tenant = nullptr;  // null: of all
    std::size_t most = 0;
    // Asked now and then while batches of other tenants are skipped: true ends the visit. Empty:
    // never.
    std::function<bool()> is_late = {};
  };
  std::expected<std::uint64_t, std::string> list(const Listing& listing,
                                                 const std::function<bool(BatchRecord&)>& visit)
      LOCKSLEY_REQUIRES(kIoThread);
  static constexpr std::size_t kLoadCost = 40;  // a load takes 20 us, a visit 0.5 us

  // A search in parts for an active batch for which `is_wanted` holds: each call checks `most`
  // batches. The search goes round once from `begin`, and stays at the batch that it has found,
  // which the next call checks first. kNone: it held for no batch at the time when the search
  // looked at that batch.
  struct ActiveSearch {
    std::uint64_t begin = 0;   // where the round began
    std::uint64_t at = 0;      // of the next batch
    bool has_wrapped = false;  // the batches from `begin` on were looked at
    // A new round begins where the search stands.
    void restart() {
      begin = at;
      has_wrapped = false;
    }
  };
  enum class Searched : std::uint8_t { kOne, kNone, kNotYet };
  Searched find_active(ActiveSearch& search, std::size_t most,
                       const std::function<bool(const BatchRecord&)>& is_wanted) const
      LOCKSLEY_REQUIRES(kIoThread);

  // Visits active batches, and then RUNs that have a sequence number. Starts at `at` and advances
  // it; visits at most `most`. True when all were visited. Batches may come and go between two
  // calls: a batch that is active all the time is visited at least once, a batch that comes
  // meanwhile perhaps not at all. A visit ends no batch.
  struct ActivePlace {
    std::uint64_t sequence = 0;              // of the next batch
    std::optional<std::size_t> runs_left{};  // none: batches come first
  };
  bool visit_active(ActivePlace& at, std::size_t most, const std::function<void(BatchRecord&)>& visit)
      LOCKSLEY_REQUIRES(kIoThread);

  DueQueue& due() LOCKSLEY_REQUIRES(kIoThread) { return due_; }
  // Sets or moves the instant at which this is due for the batch; kNever: it is not due.
  void schedule(BatchRecord& record, Due kind, Instant at) LOCKSLEY_REQUIRES(kIoThread);
  // The record of this sequence number, if it is in memory; else null. Finds a RUN, too, if it has
  // a number.
  BatchRecord* by_sequence(std::uint64_t sequence) const LOCKSLEY_REQUIRES(kIoThread);

 private:
  // The key of a batch. The batch owns the characters of `id`.
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
  Key key_of(BatchRecord& record) LOCKSLEY_REQUIRES(kIoThread) {
    return {tenant_of(record).number, record.id()};
  }
  Loaded load_or_find(std::uint64_t sequence) LOCKSLEY_REQUIRES(kIoThread);
  void count_retained() LOCKSLEY_REQUIRES(kIoThread) {
    stats_.retained_batches.set(by_id_.size() - active_.size() + retained_.size());
  }
  static Instant& instant_of(BatchRecord& record, Due kind) LOCKSLEY_REQUIRES(kIoThread);
  // Nothing is due for it any more, except perhaps kForget.
  void unschedule(BatchRecord& record) LOCKSLEY_REQUIRES(kIoThread);

  ServerStats& stats_;
  Tenants& tenants_;
  Customers customers_ LOCKSLEY_GUARDED_BY(kIoThread);
  BatchCharges charges_ LOCKSLEY_GUARDED_BY(kIoThread);
  SequenceNumbers numbers_ LOCKSLEY_GUARDED_BY(kIoThread);
  ShardedMap<Key, std::shared_ptr<BatchRecord>, KeyHash> by_id_ LOCKSLEY_GUARDED_BY(kIoThread);
  SequenceMap<BatchRecord> by_sequence_ LOCKSLEY_GUARDED_BY(kIoThread);
  SequenceMap<BatchRecord> active_ LOCKSLEY_GUARDED_BY(kIoThread);
  ForgottenIds forgotten_ LOCKSLEY_GUARDED_BY(kIoThread);
  RetainedBatches retained_ LOCKSLEY_GUARDED_BY(kIoThread);
  Load load_ LOCKSLEY_GUARDED_BY(kIoThread);
  LoadedBatches loaded_ LOCKSLEY_GUARDED_BY(kIoThread);
  ActiveRuns runs_ LOCKSLEY_GUARDED_BY(kIoThread);
  DueQueue due_ LOCKSLEY_GUARDED_BY(kIoThread);
};

}  // namespace locksley::daemon

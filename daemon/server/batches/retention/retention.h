// How long batches that are over stay, and where; which of them are evicted.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "daemon/base/loop/io_thread.h"
#include "daemon/metrics/server_stats.h"
#include "daemon/server/batches/retention/retention_books.h"
#include "daemon/server/records/batch_record.h"
#include "daemon/server/records/registry.h"
#include "daemon/store/read/reader.h"
#include "daemon/store/write/ticket.h"
#include "daemon/store/write/writes.h"

namespace locksley::daemon {

class Store;

// How long batches that are over are kept, and which of them leave early to make room.
//
// The last kMostInMemory stored batches that are over stay in memory; older ones are retired to the
// store (RetainedBatches). A batch that is in memory alone stays there. Wherever a batch is, it is
// forgotten when its time is over, by FORGET, or when it is evicted.
//
// Eviction. Only batches that are over are evicted. The burden of a user is its use of the
// resource, divided by its weight; the heaviest user has the greatest burden.
//   1. A user that is over its own limit loses its own batches, in the order in which they were
//      accepted.
//   2. If no user is over its limit, but all users together are, and a new batch needs the room:
//      the heaviest user loses batches, while it is heavier than the user that asks. If none of the
//      heavier users has a batch to evict, the user that asks loses its own. So a new batch never
//      costs a lighter user a batch. And a user with batches to evict can always submit, however
//      many users have filled the room together.
//   3. If all users together are over their limit because results grow: the heaviest user that has
//      a batch to evict loses batches, unless a user with unfinished jobs is heavier. So growing
//      results cost no lighter user a batch either.
//   4. If an operator has lowered a limit of all: the heaviest user that has a batch to evict loses
//      batches.
// For kQueuedBytes a batch does not leave, but loses the payloads that memory alone keeps for a
// RETRY, which is refused from then on (BatchRecord::has_lost_payloads). Nothing else is lost, so a
// batch may lose them also while it is pinned or being read. They are evicted for new payloads, and
// for a lower limit. Payloads that are read back from the store may exceed the limit a little, and
// evict none. A batch that a discarding client is reading is not evicted to make room for results
// in memory, or for the data about failed jobs: the reader frees the rows itself, and would lose
// rows that it has not read yet. A batch with discarded rows counts as being read until its reader
// has been silent for kReaderSilent, or for kAfterLastPage after the last page; and while a client
// waits for its rows.
//
// Owned by Batches. The I/O thread only. Nothing blocks or fails; deletions are written with the
// next group.
//
// Members: the rules above decide together; classes of their own count for them (KeptBatches,
// retention_books.h).
class Retention {
 public:
  // About what a batch takes in the store without its payloads, its results, and the texts in its
  // row (BatchRecord::Stored::text_bytes). Which of its jobs failed, and the notes of its last
  // step, are not counted: a batch that is over is indexed at a start without these.
  static constexpr std::uint64_t kRowBytes = 300;
  // Guess: no reader works at a page for so long.
  static constexpr std::chrono::minutes kReaderSilent{5};
  // Guess: a reader that does not get its last page, because its connection has broken, asks again
  // within this time.
  static constexpr std::chrono::seconds kAfterLastPage{10};
  // Guess: a client that waits for rows learns within this time that the batch is over.
  static constexpr std::chrono::milliseconds kWaiterWakes{100};

  // `store` may be null. `aside` destroys large objects.
  Retention(Registry& registry, ServerStats& stats, Store* store, Reader& aside);
  Retention(const Retention&) = delete;
  Retention& operator=(const Retention&) = delete;

  // While `is_pinned` returns true for a batch, the batch is neither evicted nor retired; other
  // batches of its user are evicted in its place. The owner calls unpinned() afterwards.
  void pin_while(std::function<bool(std::uint64_t sequence)> is_pinned) LOCKSLEY_REQUIRES(kIoThread) {
    is_pinned_ = std::move(is_pinned);
  }
  // The batch is no longer pinned. The caller then calls evict(), and evict_results() if
  // take_may_relieve().
  void unpinned(std::uint64_t sequence) LOCKSLEY_REQUIRES(kIoThread);

  // ---- Room: of kStoredBytes, of kRecordBytes, and of kQueuedBytes ----

  // Whether `more` of the resource fits for the tenant, after the eviction of every batch that may
  // be evicted for it. Null: it fits. Else the account whose limit would be exceeded. Evicts
  // nothing.
  const Account* first_without_room(Tenant& asker, Resource resource, std::uint64_t more) const
      LOCKSLEY_REQUIRES(kIoThread);
  // How much of the resource the batches of this user that cannot be evicted may take: the user's
  // limit, or less if other users leave less free.
  std::uint64_t most_now(const Account& own, Resource resource) const LOCKSLEY_REQUIRES(kIoThread);
  // Bytes in the store that a batch is about to take; they are moved to its record, or released.
  void reserve(Tenant& tenant, std::uint64_t bytes) LOCKSLEY_REQUIRES(kIoThread) {
    tenant.account.charge(Resource::kStoredBytes, bytes);
  }
  void release(Tenant& tenant, std::uint64_t bytes) LOCKSLEY_REQUIRES(kIoThread) {
    tenant.account.refund(Resource::kStoredBytes, bytes);
  }
  void assign(BatchRecord& record, std::uint64_t reserved) LOCKSLEY_REQUIRES(kIoThread) {
    record.stored.bytes += reserved;
  }
  // Updates how much the batch takes in the store. Not for a batch that may be evicted.
  void update(BatchRecord& record, std::uint64_t result_bytes) LOCKSLEY_REQUIRES(kIoThread);
  void publish_bytes() LOCKSLEY_REQUIRES(kIoThread);
  // Some results of the batch were discarded: `result_bytes` are left. The batch may be kept in any
  // place.
  void results_discarded(BatchRecord& record, std::uint64_t result_bytes) LOCKSLEY_REQUIRES(kIoThread);
  // Evicts batches until the limits of kStoredBytes and kRecordBytes are kept, or no batch is left
  // that may be evicted. `asker`: the
  // user whose new batch needs the room; null: results have grown. A large batch may take the place
  // of a million small ones, so evict() and limits_changed() evict some of them, and go_on_until()
  // the others.
  void evict(Tenant* asker = nullptr) LOCKSLEY_REQUIRES(kIoThread);
  // The same for kQueuedBytes alone: payloads of the user's new jobs need the room.
  void evict_payloads(Tenant& asker) LOCKSLEY_REQUIRES(kIoThread) {
    evict_for({.asker = &asker, .is_for_payloads = true});
  }
  // The same as evict(), and for kQueuedBytes, because limits may be lower than before.
  void limits_changed() LOCKSLEY_REQUIRES(kIoThread);
  // The same for results in memory, and for the data about failed jobs: until no account is full
  // that evictions can relieve. False: about `until` was reached; call again.
  bool evict_results(Instant until) LOCKSLEY_REQUIRES(kIoThread);
  // Evicts and retires what evict(), limits_changed() and retire() have left, until about `until`.
  // True: all is done.
  bool go_on_until(Instant until) LOCKSLEY_REQUIRES(kIoThread);
  // For tests. How many tenants evictions have examined, to find those that lose batches.
  std::uint64_t tenants_looked_at() const LOCKSLEY_REQUIRES(kIoThread) { return tenants_looked_at_; }
  // `schedule` is called when there is more to evict or to retire: the owner then calls
  // go_on_until() until it returns true. By default all is done at once.
  void do_later(std::function<void()> schedule) LOCKSLEY_REQUIRES(kIoThread) {
    schedule_ = std::move(schedule);
  }
  // True once after a batch of an account that is full of results or failures has ended or is no
  // longer pinned: evict_results() may find room now.
  bool take_may_relieve() LOCKSLEY_REQUIRES(kIoThread) { return std::exchange(may_relieve_, false); }
  // The last unfinished job of a user has ended, so its results grow no longer. By rule 3 lighter
  // users' batches may now be evicted for the data about failed jobs.
  void jobs_ended() LOCKSLEY_REQUIRES(kIoThread);
  // True once after that, if the account of all failures was full: evict_results() may find room.
  // A client may cause it with each job, so it can wait for a moment.
  bool take_may_relieve_soon() LOCKSLEY_REQUIRES(kIoThread) {
    return std::exchange(may_relieve_soon_, false);
  }
  // True once after evict_results() has left a batch in memory because the store may not have
  // written it yet: a little later it may find room. Only for the data about failed jobs. Groups
  // that have only steps report no outcome.
  bool take_awaits_write() LOCKSLEY_REQUIRES(kIoThread) { return std::exchange(awaits_write_, false); }
  // The next instant at which evict_results() may find room, because a batch is no longer being
  // read then; kNever: it skipped no such batch.
  Instant next_return() const LOCKSLEY_REQUIRES(kIoThread) {
    return returns_.empty() ? kNever : returns_.begin()->first;
  }
  // The reader of this batch has been given its last page. True: next_return() may be earlier than
  // before, and an account of the batch is full.
  bool returns_earlier(BatchRecord& record) LOCKSLEY_REQUIRES(kIoThread);

  // ---- Batches that are over ----

  // This batch is over: it may be evicted from now on.
  void add(BatchRecord& record) LOCKSLEY_REQUIRES(kIoThread);
  // As add(), for a batch that an earlier process finished. The caller calls Registry::restored()
  // after the last one.
  void add_restored(const RetainedBatch& batch) LOCKSLEY_REQUIRES(kIoThread);
  // RETRY: the batch goes on, wherever it was kept.
  void go_on(BatchRecord& record, const BatchStatus& status) LOCKSLEY_REQUIRES(kIoThread);
  // Deletes the batch, with its results. None if it is not over, or not known; else the ticket of
  // its deletion, 0 if the store has nothing to delete. With Urgency::kAwaited a reply waits for
  // the ticket.
  std::optional<Ticket> forget(BatchRecord& record, Urgency urgency) LOCKSLEY_REQUIRES(kIoThread);
  std::optional<Ticket> forget_retired(std::uint64_t sequence, Urgency urgency) LOCKSLEY_REQUIRES(kIoThread);
  // Retires the batches that ended first, until kMostInMemory are left. A batch whose writes are
  // pending stays in memory. `settled`: all writes up to this ticket have had their outcome. If
  // there are very many, it retires some, and go_on_until() the rest.
  void retire(Ticket settled) LOCKSLEY_REQUIRES(kIoThread);

 private:
  static constexpr std::size_t kMostInMemory = 4096;  // guess: some MiB
  // Batches: some 200 us, and up to three walks over all tenants (evict_some()).
  static constexpr std::size_t kMostAtOnce = 128;
  static constexpr std::size_t kBetweenLooks = 16;  // batches between two looks at the clock
  // For kQueuedBytes batches lose only payloads.
  static constexpr std::array kEvictable{Resource::kStoredBytes, Resource::kRecordBytes,
                                         Resource::kQueuedBytes};
  static constexpr std::span<const Resource> kOfBatches = std::span(kEvictable).first<2>();
  static constexpr std::span<const Resource> kOfPayloads = std::span(kEvictable).last<1>();

  // Where a search among some batches of a tenant continues.
  struct Search {
    std::uint64_t next = 0;  // sequence number
    bool tried_all = false;  // this pass began with the first batch, and none of them has left
  };
  // The searches of a tenant. Each has a place of its own: otherwise one search would end the
  // passes of another, which would begin anew in each slice.
  struct Searches {
    Search stored_for_results;
    Search stored_for_failures;
    Search ephemeral_for_failures;
  };

  void note_if_over(const Account& account) LOCKSLEY_REQUIRES(kIoThread);
  void note_if_full(const Account& account) LOCKSLEY_REQUIRES(kIoThread);
  KeptBatches& kept_of(const Tenant& tenant) LOCKSLEY_REQUIRES(kIoThread) { return books_.of(tenant.number); }
  Searches& searches_of(const Tenant& tenant) LOCKSLEY_REQUIRES(kIoThread);
  void remove(BatchRecord& record) LOCKSLEY_REQUIRES(kIoThread);
  void retired_left(const RetainedBatch& batch) LOCKSLEY_REQUIRES(kIoThread);
  bool try_retire(BatchRecord& record) LOCKSLEY_REQUIRES(kIoThread);
  // Retires at most `left` batches. False: more can be retired.
  bool retire_some(std::size_t left) LOCKSLEY_REQUIRES(kIoThread);
  // Evicts the oldest batch of the tenant that holds some of the resource. False: there is none. If
  // the search would take long, a call does a part of it, evicts nothing and returns true. So does
  // the next function.
  bool evict_one(Tenant& tenant, Resource resource) LOCKSLEY_REQUIRES(kIoThread);
  // The same for kQueuedBytes: evicts the payloads of the tenant's oldest batch that keeps some in
  // memory alone.
  bool drop_payloads_of_one(Tenant& tenant) LOCKSLEY_REQUIRES(kIoThread);
  bool evict_one_with_results(Tenant& tenant) LOCKSLEY_REQUIRES(kIoThread);
  // Likewise, but batches in memory alone stay if they have no data about failed jobs.
  bool evict_one_with_failures(Tenant& tenant) LOCKSLEY_REQUIRES(kIoThread);
  // Retires the tenant's next stored batch that can be retired. False: there is none now.
  bool retire_one(Tenant& tenant, Search& search, int tried) LOCKSLEY_REQUIRES(kIoThread);
  // If this batch, which is ephemeral, is being read, marks it as part-read until that may have
  // changed. False: it is not being read.
  bool wait_if_read(KeptBatches& kept, BatchRecord& record) LOCKSLEY_REQUIRES(kIoThread);
  // kNever: it has no instant in returns_.
  void set_return(BatchRecord& record, Instant at) LOCKSLEY_REQUIRES(kIoThread);
  // Why batches are evicted.
  struct Cause {
    Tenant* asker = nullptr;       // null: no new batch asks
    bool is_limit = false;         // limits are lower than before
    bool is_for_payloads = false;  // batches lose only their payloads
    bool operator==(const Cause&) const = default;
  };
  static std::span<const Resource> resources_of(const Cause& cause) {
    if (cause.is_limit) return kEvictable;
    return cause.is_for_payloads ? kOfPayloads : kOfBatches;
  }
  // How much a call may evict.
  class EvictionBudget {
   public:
    EvictionBudget(std::size_t most, Instant until) : left_(most), until_(until) {}
    // A batch leaves. The clock is read only after some batches, so a call always evicts some.
    void take() {
      --left_;
      ++taken_;
    }
    bool is_used_up() const {
      return left_ == 0 || (taken_ != 0 && taken_ % kBetweenLooks == 0 && now() >= until_);
    }

   private:
    std::size_t left_;
    const Instant until_;
    std::size_t taken_ = 0;
  };
  // For evict_results(): the account in which to make room, and the function that evicts one batch
  // for it.
  struct Memory {
    const ResultAccount& (*account_of)(const Account&);
    bool (Retention::*evict_one_with)(Tenant&);
  };
  // Part-read batches that are no longer being read are ephemeral again. False: the budget is used
  // up.
  bool return_some(EvictionBudget& budget) LOCKSLEY_REQUIRES(kIoThread);
  // Evicts while all users together have reached the limit. False: the budget is used up.
  bool evict_for_all(const Memory& memory, EvictionBudget& budget) LOCKSLEY_REQUIRES(kIoThread);
  void evict_for(const Cause& cause) LOCKSLEY_REQUIRES(kIoThread);
  // These functions evict until `budget` is used up. False: there is more to evict. evict_some()
  // walks over all tenants once for each resource that exceeds the limit of all, and once more if
  // no tenant asks, however many batches it evicts.
  bool evict_some(const Cause& cause, EvictionBudget& budget) LOCKSLEY_REQUIRES(kIoThread);
  // Evicts batches of a tenant that is over its own limits.
  bool evict_own(Tenant& tenant, std::span<const Resource> resources, EvictionBudget& budget)
      LOCKSLEY_REQUIRES(kIoThread);
  // Evicts batches while all tenants together are over their limit.
  bool evict_heaviest(Resource resource, const Cause& cause, EvictionBudget& budget)
      LOCKSLEY_REQUIRES(kIoThread);

  Registry& registry_;
  ServerStats& stats_;
  Store* const store_;
  Reader& aside_;
  std::function<bool(std::uint64_t)> is_pinned_ LOCKSLEY_GUARDED_BY(kIoThread) = [](std::uint64_t) {
    return false;
  };
  bool may_relieve_ LOCKSLEY_GUARDED_BY(kIoThread) = false;       // take_may_relieve()
  bool may_relieve_soon_ LOCKSLEY_GUARDED_BY(kIoThread) = false;  // take_may_relieve_soon()
  bool awaits_write_ LOCKSLEY_GUARDED_BY(kIoThread) = false;      // take_awaits_write()
  // Some account may be over its limit, since evict() checked all of them.
  bool may_be_over_ LOCKSLEY_GUARDED_BY(kIoThread) = false;
  std::uint64_t tenants_looked_at_ LOCKSLEY_GUARDED_BY(kIoThread) = 0;

  // The work that is left for go_on_until().
  std::function<void()> schedule_ LOCKSLEY_GUARDED_BY(kIoThread);
  bool retires_ LOCKSLEY_GUARDED_BY(kIoThread) = false;      // there are batches to retire
  std::deque<Cause> causes_ LOCKSLEY_GUARDED_BY(kIoThread);  // why batches are to be evicted; each once

  // The batches that are over.
  RetentionBooks books_ LOCKSLEY_GUARDED_BY(kIoThread);
  std::vector<Searches> searches_ LOCKSLEY_GUARDED_BY(kIoThread);  // by Tenant::number
  // When part-read batches are to be checked again, with their sequence numbers. Each is here once;
  // its reader may have been seen since. Batches that are not part-read may be here as well.
  using Returns = std::set<std::pair<Instant, std::uint64_t>>;
  Returns returns_ LOCKSLEY_GUARDED_BY(kIoThread);
  // Stored batches, in the order of their ends; some may be gone already.
  std::deque<std::uint64_t> ended_ LOCKSLEY_GUARDED_BY(kIoThread);
  Ticket settled_ LOCKSLEY_GUARDED_BY(kIoThread) = 0;  // the last argument of retire()
};

}  // namespace locksley::daemon

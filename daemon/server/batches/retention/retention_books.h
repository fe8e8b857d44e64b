// The batches that are over: where each is kept, and how much its eviction would free.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include "daemon/server/accounts/account.h"
#include "daemon/server/records/sequence_set.h"

namespace locksley::daemon {

// How much one batch that is over, or several, take of the resources for which batches are evicted.
struct EvictableBytes {
  std::uint64_t stored = 0;    // Resource::kStoredBytes
  std::uint64_t record = 0;    // Resource::kRecordBytes
  std::uint64_t payloads = 0;  // Resource::kQueuedBytes; only of a batch in memory alone

  std::uint64_t of(Resource resource) const {
    if (resource == Resource::kQueuedBytes) return payloads;
    return resource == Resource::kStoredBytes ? stored : record;
  }
};

// The batches of one tenant that are over. Each is in one place:
//   - stored: in memory and in the store; it may be retired;
//   - ephemeral: in memory alone;
//   - part-read: likewise, and it waits for its reader;
//   - pinned: stored or ephemeral, and could not leave when it was its turn;
//   - retired: in the store alone. These are only counted: RetainedBatches has them.
// Batches of one place leave in the order of their sequence numbers. Payloads that a RETRY may need
// leave before their batch, in the same order, whatever place the batch is in.
//
// Owned by RetentionBooks. The I/O thread only. O(log n). Only allocation fails.
class KeptBatches {
 public:
  static constexpr std::uint64_t kNone = std::numeric_limits<std::uint64_t>::max();  // no batch

  // `of_all`: the sum over all tenants.
  explicit KeptBatches(EvictableBytes& of_all) : of_all_(&of_all) {}

  // How much evicting all these batches would free.
  std::uint64_t evictable(Resource resource) const { return evictable_.of(resource); }

  // ---- In memory ----

  void add_stored(std::uint64_t sequence, const EvictableBytes& bytes);
  void add_ephemeral(std::uint64_t sequence, const EvictableBytes& bytes);
  // The batch leaves memory. `bytes`: as it was added, with the changes of change_stored(). No
  // effect if it is not there.
  void remove(std::uint64_t sequence, const EvictableBytes& bytes);
  // The batch takes other bytes in the store than before. Without effect if it is not there, or is
  // in memory alone and not pinned.
  void change_stored(std::uint64_t sequence, std::uint64_t before, std::uint64_t after);
  // The batch's payloads, of this many bytes, have left memory; the batch stays. No effect if it
  // has none.
  void payloads_left(std::uint64_t sequence, std::uint64_t bytes);
  // The first batch that has payloads; kNone: there is none.
  std::uint64_t first_with_payloads() const { return with_payloads_.from(0).value_or(kNone); }

  // The first batch of a place that may leave; kNone: there is none. The batches before it are
  // pinned from now on.
  using IsPinned = std::function<bool(std::uint64_t sequence)>;
  std::uint64_t first_stored(const IsPinned& is_pinned) { return first_of(stored_, is_pinned); }
  std::uint64_t first_ephemeral(const IsPinned& is_pinned) { return first_of(ephemeral_, is_pinned); }
  std::uint64_t first_part_read(const IsPinned& is_pinned) { return first_of(part_read_, is_pinned); }
  // The batch goes back to its place. False, without effect, if it was not pinned.
  bool unpin(std::uint64_t sequence, bool is_stored);
  // This batch, which is ephemeral, waits for its reader. False, without effect, if it is not.
  bool note_part_read(std::uint64_t sequence);
  // This batch, which is part-read, waits no longer. False, without effect, if it is not.
  bool note_not_read(std::uint64_t sequence);
  // The first stored batch with this number or a greater one, without pinned ones.
  std::optional<std::uint64_t> stored_from(std::uint64_t sequence) const { return stored_.from(sequence); }
  // The same for ephemeral batches.
  std::optional<std::uint64_t> ephemeral_from(std::uint64_t sequence) const {
    return ephemeral_.from(sequence);
  }
  bool has_stored() const { return !stored_.empty(); }
  // Whether there is a stored or an ephemeral batch.
  bool has_results_to_free() const { return !ephemeral_.empty() || !stored_.empty(); }

  // ---- Retired ----

  void add_retired(std::uint64_t sequence, const EvictableBytes& bytes);
  void remove_retired(const EvictableBytes& bytes);
  // A retired batch takes fewer bytes in the store than before.
  void shrink_retired(std::uint64_t stored_bytes_freed);
  bool has_retired() const { return retired_ != 0; }
  // No retired batch has a lower number. The caller, which looks for the first one, raises it.
  std::uint64_t& first_retired() { return first_retired_; }

 private:
  std::uint64_t first_of(SequenceSet& place, const IsPinned& is_pinned);
  void increase(const EvictableBytes& bytes);
  void decrease(const EvictableBytes& bytes);

  EvictableBytes* of_all_;
  EvictableBytes evictable_;
  SequenceSet stored_;
  SequenceSet ephemeral_;
  SequenceSet part_read_;
  SequenceSet pinned_;
  SequenceSet with_payloads_;  // the batches in any of these places that have payloads
  std::uint64_t retired_ = 0;  // how many
  std::uint64_t first_retired_ = 0;
};

// The finished batches of all tenants. It records the changes of each; Retention alone decides.
//
// A member of Retention. The I/O thread only. Only allocation fails.
class RetentionBooks {
 public:
  RetentionBooks() = default;
  RetentionBooks(const RetentionBooks&) = delete;
  RetentionBooks& operator=(const RetentionBooks&) = delete;

  // `tenant`: Tenant::number. Valid until the first call for another tenant.
  KeptBatches& of(std::uint32_t tenant);
  // Null: no batch of the tenant has been over so far.
  const KeptBatches* find(std::uint32_t tenant) const;
  // How much evicting all batches of the tenant, or of all tenants, would free.
  std::uint64_t evictable(std::uint32_t tenant, Resource resource) const;
  std::uint64_t evictable_of_all(Resource resource) const { return of_all_.of(resource); }

 private:
  EvictableBytes of_all_;
  std::vector<KeptBatches> kept_;  // by Tenant::number
};

}  // namespace locksley::daemon

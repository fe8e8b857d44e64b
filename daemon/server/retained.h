// What memory keeps of batches that are over and in the store: where to find them, and when they go.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "daemon/store/payload_parts.h"

namespace locksley::daemon {

struct RetainedBatch {
  std::uint64_t sequence = 0;
  std::uint64_t id_hash = 0;  // RetainedBatches::hash_of()
  std::chrono::steady_clock::time_point forget_at;
  std::uint64_t stored_bytes = 0;  // that it takes in the store
  std::uint32_t tenant = 0;        // Tenant::number
  // How it is forgotten with the least trouble.
  PayloadParts parts = PayloadParts::kUnknown;
  bool has_one_step = false;
};
static_assert(sizeof(RetainedBatch) == 40);

// The retained batches: by id, by sequence, by the instant at which they go. Of the id a hash is kept;
// whoever looks for one reads from the store which of the few that have it, one as a rule, it is. 70 to 110
// bytes a batch: a million fit where a few tens of thousands of whole records would.
//
// Owned by the Registry; the I/O thread only. Adding and removing are O(log n) and move at most kPageSlots
// entries. Only allocation fails. Pointers to entries hold until the next change.
class RetainedBatches {
 public:
  using Instant = std::chrono::steady_clock::time_point;

  // `seed` keeps clients from choosing ids that all have one hash.
  explicit RetainedBatches(std::uint64_t seed) : seed_(seed) {}

  std::uint64_t hash_of(std::uint32_t tenant, std::string_view id) const;

  // Needs: there is none of this sequence, which is not 0.
  void add(const RetainedBatch& batch);
  // What it was; none if there is none.
  std::optional<RetainedBatch> remove(std::uint64_t sequence);

  std::size_t size() const { return size_; }
  // Null if there is none.
  const RetainedBatch* find(std::uint64_t sequence) const;
  // The last one before `sequence`; null if there is none.
  const RetainedBatch* before(std::uint64_t sequence) const;
  // The one that was accepted first; null if there is none.
  const RetainedBatch* first() const;
  // The sequences of all whose ids have this hash.
  std::vector<std::uint64_t> with_hash(std::uint64_t id_hash) const;

  // The one that goes next; null if there is none. Its forget_at is the earliest.
  const RetainedBatch* next_to_go();

 private:
  // Batches of 256 successive sequences lie together, sorted; pages of which none is left are gone.
  static constexpr unsigned kPageShift = 8;
  static constexpr std::size_t kPageSlots = std::size_t{1} << kPageShift;
  using Page = std::vector<RetainedBatch>;

  // An open-addressed table from hash to sequence; 0: the slot is free.
  struct Slot {
    std::uint64_t id_hash = 0;
    std::uint64_t sequence = 0;
  };
  struct Going {
    Instant at;
    std::uint64_t sequence;
    friend bool operator>(const Going& a, const Going& b) { return a.at > b.at; }
  };

  void put_slot(Slot slot);
  void remove_slot(const RetainedBatch& batch);
  void resize_slots(std::size_t count);

  const std::uint64_t seed_;
  std::size_t size_ = 0;
  std::map<std::uint64_t, Page> pages_;
  std::vector<Slot> slots_;   // a power of two of them, at most three quarters of them taken
  std::vector<Going> going_;  // a heap, the earliest on top; some of batches that have gone already
};

}  // namespace locksley::daemon

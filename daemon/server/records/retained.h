// The entries that memory keeps of batches that are over and in the store.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/base/time.h"
#include "daemon/store/rows/stored_rows.h"

namespace locksley::daemon {

// The entry of one such batch: all that memory keeps of the batch.
struct RetainedBatch {
  std::uint64_t sequence = 0;
  std::uint64_t id_hash = 0;  // RetainedBatches::hash_of()
  Instant forget_at;
  std::uint64_t stored_bytes = 0;  // that it takes in the store
  std::uint32_t tenant = 0;        // Tenant::number
  StoredRows rows = {};
};
static_assert(sizeof(RetainedBatch) == 40);

// The retained batches, found by the hash of their id, by sequence number, and by the instant at
// which they are forgotten. A look-up by id reads from the store which of the batches with that
// hash, usually one, has the id. A batch takes 70 to 110 bytes, so a million entries take the
// memory of a few tens of thousands of whole records.
//
// Owned by the Registry; the I/O thread only. Nothing blocks. Adding and removing are O(log n), and
// move at most kPageSlots entries and the entries of one small table: with ten million batches this
// takes 0.5 ms at worst (tests/unit/daemon/server/records/retained_calls_test.cc). Only allocation
// fails. Pointers to entries are valid until the next change.
class RetainedBatches {
 public:
  // `seed` is secret, so that clients cannot choose ids that all have one hash.
  explicit RetainedBatches(std::uint64_t seed) : seed_(seed) {}

  // `tenant`: Tenant::number.
  std::uint64_t hash_of(std::uint32_t tenant, std::string_view id) const;

  // Needs: its sequence number is not 0, and has no entry.
  void add(const RetainedBatch& batch);
  // At a start: adds batches in the order of their sequence numbers, and then makes all of them
  // known at once. Until restored() only restore() and size() may be called. A million batches take
  // a tenth of the time of add().
  void restore(const RetainedBatch& batch);
  void restored();
  // Removes an entry and returns it; none if there is none.
  std::optional<RetainedBatch> remove(std::uint64_t sequence);

  // Moves the instant at which a batch is forgotten, if it has one and it is `from`.
  void postpone(std::uint64_t sequence, Instant from, Instant to);

  std::size_t size() const { return size_; }
  // Null if there is none.
  const RetainedBatch* find(std::uint64_t sequence) const;
  // The same; only `stored_bytes` and `rows.may_have_changes` may be changed.
  RetainedBatch* find(std::uint64_t sequence) {
    return const_cast<RetainedBatch*>(std::as_const(*this).find(sequence));
  }
  // The entry with the largest sequence number below `sequence`; null if there is none.
  const RetainedBatch* before(std::uint64_t sequence) const;
  // Finds the tenant's first entry whose sequence number is at least `from`, and sets `from` to
  // that number. Searches at most about kMostSearched entries of other tenants: some microseconds.
  // Null: none found so far; the next call continues at `from`, which is the largest number if
  // there is none.
  static constexpr std::size_t kMostSearched = 1024;
  const RetainedBatch* next_of(std::uint32_t tenant, std::uint64_t& from) const;
  // The sequences of all whose ids have this hash.
  std::vector<std::uint64_t> with_hash(std::uint64_t id_hash) const;

  // No batch has a forget_at before this instant; Instant::max(): there is no batch. It may be
  // earlier than every forget_at, if batches were forgotten before their time. O(1).
  Instant earliest_forget_bound();
  // The batch with the earliest forget_at, if that is not after `at`. Null: there is none, or the
  // call met many entries of batches that were forgotten before their time. In the second case
  // earliest_forget_bound() is not after `at`, and the caller calls again.
  const RetainedBatch* due_at(Instant at);

 private:
  // A page has the entries of 256 successive sequence numbers, sorted; an empty page is removed.
  static constexpr unsigned kPageShift = 8;
  static constexpr std::size_t kPageSlots = std::size_t{1} << kPageShift;
  using Page = std::vector<RetainedBatch>;

  // An open-addressed table from hash to sequence; 0: the slot is free. A power of two of slots, at
  // most three quarters of them taken; empty at first. There are many tables, so that a growing
  // table moves few entries.
  struct Slot {
    std::uint64_t id_hash = 0;
    std::uint64_t sequence = 0;
  };
  struct Table {
    std::vector<Slot> slots;
    std::size_t size = 0;
  };
  static constexpr unsigned kTableBits = 10;
  static constexpr std::size_t kLeastSlots = 16;  // of a table that is not empty; a guess
  struct Going {
    Instant at;
    std::uint64_t sequence;
    friend bool operator>(const Going& a, const Going& b) { return a.at > b.at; }
  };
  // A heap, the earliest on top. A deque, because a growing vector moves all entries.
  using Heap = std::deque<Going>;

  // The highest bits choose the table, the lowest the place in it.
  Table& table_of(std::uint64_t id_hash) { return tables_[id_hash >> (64 - kTableBits)]; }
  static void put_slot(Table& table, Slot slot);
  static void remove_slot(Table& table, const RetainedBatch& batch);
  static void resize(Table& table, std::size_t slots);
  static std::size_t slots_for(std::size_t batches);
  static void push(Heap& heap, Going going);
  static void pop(Heap& heap);
  // The heap with the earlier top; null: both are empty.
  Heap* first_heap();
  bool is_stale(const Going& going) const;
  void sweep_some();

  const std::uint64_t seed_;
  std::size_t size_ = 0;
  bool is_restoring_ = false;  // restore() was called, and restored() was not
  std::map<std::uint64_t, Page> pages_;
  std::array<Table, std::size_t{1} << kTableBits> tables_;
  // The instants at which batches are forgotten. Entries of batches that were forgotten before
  // their time stay. Once there are many such entries, each change takes a few entries from the end
  // of `going_`, and moves those of retained batches to `swept_`. When `going_` is empty, the two
  // are swapped.
  Heap going_;
  Heap swept_;
  bool is_sweeping_ = false;
};

}  // namespace locksley::daemon

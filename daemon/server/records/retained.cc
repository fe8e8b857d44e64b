#include "daemon/server/records/retained.h"

#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <iterator>
#include <limits>
#include <utility>

#include "core/base/check.h"

namespace locksley::daemon {

std::uint64_t RetainedBatches::hash_of(std::uint32_t tenant, std::string_view id) const {
  // Any odd constant: it gives the same id of two tenants two hashes.
  return XXH3_64bits_withSeed(id.data(), id.size(), seed_ + tenant * std::uint64_t{0x9E3779B97F4A7C15});
}

void RetainedBatches::add(const RetainedBatch& batch) {
  check(!is_restoring_, "a batch is added while those of the store are restored");
  Page& page = pages_[batch.sequence >> kPageShift];
  const auto at = std::ranges::lower_bound(page, batch.sequence, {}, &RetainedBatch::sequence);
  check(at == page.end() || at->sequence != batch.sequence, "a batch is retained twice");
  page.insert(at, batch);
  ++size_;
  Table& table = table_of(batch.id_hash);
  if (table.slots.size() < slots_for(table.size + 1)) resize(table, slots_for(table.size + 1));
  put_slot(table, {batch.id_hash, batch.sequence});
  push(is_sweeping_ ? swept_ : going_, {batch.forget_at, batch.sequence});
  sweep_some();
}

void RetainedBatches::restore(const RetainedBatch& batch) {
  is_restoring_ = true;
  const std::uint64_t number = batch.sequence >> kPageShift;
  if (pages_.empty() || pages_.rbegin()->first != number) {
    if (!pages_.empty()) pages_.rbegin()->second.shrink_to_fit();
    pages_.emplace_hint(pages_.end(), number, Page())->second.reserve(kPageSlots);
  }
  Page& page = pages_.rbegin()->second;
  check(page.empty() || page.back().sequence < batch.sequence, "batches are restored out of their order");
  page.push_back(batch);
  ++size_;
}

void RetainedBatches::restored() {
  if (!std::exchange(is_restoring_, false)) return;
  pages_.rbegin()->second.shrink_to_fit();
  std::array<std::size_t, std::size_t{1} << kTableBits> sizes{};
  for (const auto& [number, page] : pages_) {
    for (const RetainedBatch& batch : page) ++sizes[batch.id_hash >> (64 - kTableBits)];
  }
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] != 0) tables_[i].slots = std::vector<Slot>(slots_for(sizes[i]));
  }
  for (const auto& [number, page] : pages_) {
    // Prefetches: the slots of a page's batches lie anywhere, and each access would wait for
    // memory.
    for (const RetainedBatch& batch : page) {
      std::vector<Slot>& slots = table_of(batch.id_hash).slots;
      __builtin_prefetch(&slots[batch.id_hash & (slots.size() - 1)], 1);
    }
    for (const RetainedBatch& batch : page) {
      put_slot(table_of(batch.id_hash), {batch.id_hash, batch.sequence});
      going_.push_back({batch.forget_at, batch.sequence});
    }
  }
  std::ranges::make_heap(going_, std::greater<>{});
}

std::optional<RetainedBatch> RetainedBatches::remove(std::uint64_t sequence) {
  const auto found = pages_.find(sequence >> kPageShift);
  if (found == pages_.end()) return std::nullopt;
  Page& page = found->second;
  const auto at = std::ranges::lower_bound(page, sequence, {}, &RetainedBatch::sequence);
  if (at == page.end() || at->sequence != sequence) return std::nullopt;
  const RetainedBatch batch = *at;
  page.erase(at);
  if (page.empty()) {
    pages_.erase(found);
  } else if (page.size() < page.capacity() / 4) {
    page.shrink_to_fit();
  }
  --size_;
  remove_slot(table_of(batch.id_hash), batch);
  // The entries of batches that were removed before their time stay in the heap until they are
  // many.
  if (!is_sweeping_ && going_.size() > 2 * size_ + kPageSlots) is_sweeping_ = true;
  sweep_some();
  return batch;
}

void RetainedBatches::postpone(std::uint64_t sequence, Instant from, Instant to) {
  const auto found = pages_.find(sequence >> kPageShift);
  if (found == pages_.end()) return;
  const auto at = std::ranges::lower_bound(found->second, sequence, {}, &RetainedBatch::sequence);
  if (at == found->second.end() || at->sequence != sequence || at->forget_at != from || from == to) return;
  at->forget_at = to;
  push(is_sweeping_ ? swept_ : going_, {to, sequence});
}

const RetainedBatch* RetainedBatches::find(std::uint64_t sequence) const {
  const RetainedBatch* last = before(sequence + 1);
  return last != nullptr && last->sequence == sequence ? last : nullptr;
}

const RetainedBatch* RetainedBatches::before(std::uint64_t sequence) const {
  auto page = pages_.upper_bound(sequence >> kPageShift);
  while (page != pages_.begin()) {
    --page;
    const auto end = std::ranges::lower_bound(page->second, sequence, {}, &RetainedBatch::sequence);
    if (end != page->second.begin()) return &*std::prev(end);
  }
  return nullptr;
}

const RetainedBatch* RetainedBatches::next_of(std::uint32_t tenant, std::uint64_t& from) const {
  std::size_t searched = 0;
  for (auto page = pages_.lower_bound(from >> kPageShift); page != pages_.end(); ++page) {
    if (searched >= kMostSearched) return nullptr;
    const auto found = std::ranges::find_if(page->second, [&](const RetainedBatch& batch) {
      return batch.sequence >= from && batch.tenant == tenant;
    });
    if (found != page->second.end()) {
      from = found->sequence;
      return &*found;
    }
    from = (page->first + 1) << kPageShift;
    searched += page->second.size();
  }
  from = std::numeric_limits<std::uint64_t>::max();
  return nullptr;
}

std::vector<std::uint64_t> RetainedBatches::with_hash(std::uint64_t id_hash) const {
  check(!is_restoring_, "a batch is looked up while those of the store are restored");
  std::vector<std::uint64_t> sequences;
  const std::vector<Slot>& slots = tables_[id_hash >> (64 - kTableBits)].slots;
  if (slots.empty()) return sequences;
  const std::size_t mask = slots.size() - 1;
  for (std::size_t i = id_hash & mask; slots[i].sequence != 0; i = (i + 1) & mask) {
    if (slots[i].id_hash == id_hash) sequences.push_back(slots[i].sequence);
  }
  return sequences;
}

RetainedBatches::Heap* RetainedBatches::first_heap() {
  if (swept_.empty()) return going_.empty() ? nullptr : &going_;
  return going_.empty() || going_.front() > swept_.front() ? &swept_ : &going_;
}

Instant RetainedBatches::earliest_forget_bound() {
  const Heap* const heap = first_heap();
  return heap == nullptr ? Instant::max() : heap->front().at;
}

const RetainedBatch* RetainedBatches::due_at(Instant at) {
  constexpr int kAtOnce = 64;  // some 20 us
  for (int n = 0; n < kAtOnce; ++n) {
    Heap* const heap = first_heap();
    if (heap == nullptr || heap->front().at > at) return nullptr;
    if (!is_stale(heap->front())) return find(heap->front().sequence);
    pop(*heap);
  }
  return nullptr;
}

void RetainedBatches::push(Heap& heap, Going going) {
  heap.push_back(going);
  std::ranges::push_heap(heap, std::greater<>{});
}

void RetainedBatches::pop(Heap& heap) {
  std::ranges::pop_heap(heap, std::greater<>{});
  heap.pop_back();
}

bool RetainedBatches::is_stale(const Going& going) const {
  const RetainedBatch* const batch = find(going.sequence);
  return batch == nullptr || batch->forget_at != going.at;
}

void RetainedBatches::sweep_some() {
  constexpr int kAtOnce = 8;  // some us; a sweep ends long before as many batches are forgotten again
  for (int n = 0; is_sweeping_ && n < kAtOnce; ++n) {
    if (going_.empty()) {
      is_sweeping_ = false;
      going_.swap(swept_);
      return;
    }
    // A heap without its last entry is still a heap.
    const Going last = going_.back();
    going_.pop_back();
    if (!is_stale(last)) push(swept_, last);
  }
}

std::size_t RetainedBatches::slots_for(std::size_t batches) {
  return std::max(kLeastSlots, std::bit_ceil((4 * batches + 2) / 3));
}

void RetainedBatches::put_slot(Table& table, Slot slot) {
  const std::size_t mask = table.slots.size() - 1;
  std::size_t i = slot.id_hash & mask;
  while (table.slots[i].sequence != 0) i = (i + 1) & mask;
  table.slots[i] = slot;
  ++table.size;
}

void RetainedBatches::remove_slot(Table& table, const RetainedBatch& batch) {
  std::vector<Slot>& slots = table.slots;
  const std::size_t mask = slots.size() - 1;
  std::size_t hole = batch.id_hash & mask;
  while (slots[hole].sequence != batch.sequence) hole = (hole + 1) & mask;
  // The slots after the hole move up, so that no search ends at the hole.
  for (std::size_t i = (hole + 1) & mask; slots[i].sequence != 0; i = (i + 1) & mask) {
    const std::size_t home = slots[i].id_hash & mask;
    if (((i - home) & mask) >= ((i - hole) & mask)) {
      slots[hole] = slots[i];
      hole = i;
    }
  }
  slots[hole] = {};
  --table.size;
  if (8 * table.size < slots.size() && slots.size() > kLeastSlots) resize(table, slots.size() / 4);
}

void RetainedBatches::resize(Table& table, std::size_t count) {
  const std::vector<Slot> before =
      std::exchange(table.slots, std::vector<Slot>(std::max(kLeastSlots, count)));
  table.size = 0;
  for (const Slot& slot : before) {
    if (slot.sequence != 0) put_slot(table, slot);
  }
}

}  // namespace locksley::daemon

#include "daemon/server/records/retained.h"

#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <iterator>
#include <utility>

#include "core/base/check.h"

namespace locksley::daemon {

std::uint64_t RetainedBatches::hash_of(std::uint32_t tenant, std::string_view id) const {
  // Any odd constant: so the same id of two tenants has two hashes.
  return XXH3_64bits_withSeed(id.data(), id.size(), seed_ + tenant * std::uint64_t{0x9E3779B97F4A7C15});
}

void RetainedBatches::add(const RetainedBatch& batch) {
  check(!is_restoring_, "a batch is added while those of the store are restored");
  Page& page = pages_[batch.sequence >> kPageShift];
  const auto at = std::ranges::lower_bound(page, batch.sequence, {}, &RetainedBatch::sequence);
  check(at == page.end() || at->sequence != batch.sequence, "a batch is retained twice");
  page.insert(at, batch);
  ++size_;
  if (4 * size_ > 3 * slots_.size()) resize_slots(std::max<std::size_t>(16, 2 * slots_.size()));
  put_slot({batch.id_hash, batch.sequence});
  going_.push_back({batch.forget_at, batch.sequence});
  std::ranges::push_heap(going_, std::greater<>{});
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
  slots_ = std::vector<Slot>(std::max<std::size_t>(16, std::bit_ceil((4 * size_ + 2) / 3)));
  going_.reserve(size_);
  for (const auto& [number, page] : pages_) {
    // The slots of a page lie anywhere, so each would cost a wait for the memory.
    for (const RetainedBatch& batch : page) __builtin_prefetch(&slots_[home_of(batch.id_hash)], 1);
    for (const RetainedBatch& batch : page) {
      put_slot({batch.id_hash, batch.sequence});
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
  remove_slot(batch);
  // The entries of batches that were removed before their time stay in the heap. Here they are
  // dropped, once they are many.
  if (going_.size() > 2 * size_ + kPageSlots) {
    std::erase_if(going_, [this](const Going& going) {
      const RetainedBatch* left = find(going.sequence);
      return left == nullptr || left->forget_at != going.at;
    });
    going_.shrink_to_fit();
    std::ranges::make_heap(going_, std::greater<>{});
    if (8 * size_ < slots_.size()) resize_slots(std::max<std::size_t>(16, slots_.size() / 4));
  }
  return batch;
}

void RetainedBatches::postpone(std::uint64_t sequence, Instant from, Instant to) {
  const auto found = pages_.find(sequence >> kPageShift);
  if (found == pages_.end()) return;
  const auto at = std::ranges::lower_bound(found->second, sequence, {}, &RetainedBatch::sequence);
  if (at == found->second.end() || at->sequence != sequence || at->forget_at != from || from == to) return;
  at->forget_at = to;
  going_.push_back({to, sequence});
  std::ranges::push_heap(going_, std::greater<>{});
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

const RetainedBatch* RetainedBatches::next_of(std::uint32_t tenant, std::uint64_t sequence) const {
  for (auto page = pages_.lower_bound(sequence >> kPageShift); page != pages_.end(); ++page) {
    const auto found = std::ranges::find_if(page->second, [&](const RetainedBatch& batch) {
      return batch.sequence >= sequence && batch.tenant == tenant;
    });
    if (found != page->second.end()) return &*found;
  }
  return nullptr;
}

std::vector<std::uint64_t> RetainedBatches::with_hash(std::uint64_t id_hash) const {
  check(!is_restoring_, "a batch is looked up while those of the store are restored");
  std::vector<std::uint64_t> sequences;
  if (slots_.empty()) return sequences;
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t i = id_hash & mask; slots_[i].sequence != 0; i = (i + 1) & mask) {
    if (slots_[i].id_hash == id_hash) sequences.push_back(slots_[i].sequence);
  }
  return sequences;
}

const RetainedBatch* RetainedBatches::next_to_go() {
  while (!going_.empty()) {
    const RetainedBatch* batch = find(going_.front().sequence);
    if (batch != nullptr && batch->forget_at == going_.front().at) return batch;
    std::ranges::pop_heap(going_, std::greater<>{});
    going_.pop_back();
  }
  return nullptr;
}

void RetainedBatches::put_slot(Slot slot) {
  const std::size_t mask = slots_.size() - 1;
  std::size_t i = home_of(slot.id_hash);
  while (slots_[i].sequence != 0) i = (i + 1) & mask;
  slots_[i] = slot;
}

void RetainedBatches::remove_slot(const RetainedBatch& batch) {
  const std::size_t mask = slots_.size() - 1;
  std::size_t hole = batch.id_hash & mask;
  while (slots_[hole].sequence != batch.sequence) hole = (hole + 1) & mask;
  // The slots after the hole move up, so that no search ends at the hole.
  for (std::size_t i = (hole + 1) & mask; slots_[i].sequence != 0; i = (i + 1) & mask) {
    const std::size_t home = slots_[i].id_hash & mask;
    if (((i - home) & mask) >= ((i - hole) & mask)) {
      slots_[hole] = slots_[i];
      hole = i;
    }
  }
  slots_[hole] = {};
}

void RetainedBatches::resize_slots(std::size_t count) {
  for (const Slot& slot : std::exchange(slots_, std::vector<Slot>(count))) {
    if (slot.sequence != 0) put_slot(slot);
  }
}

}  // namespace locksley::daemon

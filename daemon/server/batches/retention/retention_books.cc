#include "daemon/server/batches/retention/retention_books.h"

#include <algorithm>

namespace locksley::daemon {

void KeptBatches::increase(const EvictableBytes& bytes) {
  for (EvictableBytes* const each : {&evictable_, of_all_}) {
    each->stored += bytes.stored;
    each->record += bytes.record;
    each->payloads += bytes.payloads;
  }
}

void KeptBatches::decrease(const EvictableBytes& bytes) {
  for (EvictableBytes* const each : {&evictable_, of_all_}) {
    each->stored -= bytes.stored;
    each->record -= bytes.record;
    each->payloads -= bytes.payloads;
  }
}

void KeptBatches::add_stored(std::uint64_t sequence, const EvictableBytes& bytes) {
  stored_.insert(sequence);
  increase(bytes);
}

void KeptBatches::add_ephemeral(std::uint64_t sequence, const EvictableBytes& bytes) {
  ephemeral_.insert(sequence);
  if (bytes.payloads != 0) with_payloads_.insert(sequence);
  increase(bytes);
}

void KeptBatches::remove(std::uint64_t sequence, const EvictableBytes& bytes) {
  for (SequenceSet* const place : {&stored_, &pinned_, &ephemeral_, &part_read_}) {
    if (!place->erase(sequence)) continue;
    with_payloads_.erase(sequence);
    return decrease(bytes);
  }
}

void KeptBatches::payloads_left(std::uint64_t sequence, std::uint64_t bytes) {
  if (with_payloads_.erase(sequence)) decrease({.payloads = bytes});
}

void KeptBatches::change_stored(std::uint64_t sequence, std::uint64_t before, std::uint64_t after) {
  if (!stored_.contains(sequence) && !pinned_.contains(sequence)) return;
  increase({.stored = after});
  decrease({.stored = before});
}

std::uint64_t KeptBatches::first_of(SequenceSet& place, const IsPinned& is_pinned) {
  while (const auto first = place.from(0)) {
    if (!is_pinned(*first)) return *first;
    place.erase(*first);
    pinned_.insert(*first);
  }
  return kNone;
}

bool KeptBatches::unpin(std::uint64_t sequence, bool is_stored) {
  if (!pinned_.erase(sequence)) return false;
  (is_stored ? stored_ : ephemeral_).insert(sequence);
  return true;
}

bool KeptBatches::note_part_read(std::uint64_t sequence) {
  if (!ephemeral_.erase(sequence)) return false;
  part_read_.insert(sequence);
  return true;
}

bool KeptBatches::note_not_read(std::uint64_t sequence) {
  if (!part_read_.erase(sequence)) return false;
  ephemeral_.insert(sequence);
  return true;
}

void KeptBatches::add_retired(std::uint64_t sequence, const EvictableBytes& bytes) {
  ++retired_;
  first_retired_ = std::min(first_retired_, sequence);
  increase(bytes);
}

void KeptBatches::remove_retired(const EvictableBytes& bytes) {
  --retired_;
  decrease(bytes);
}

void KeptBatches::shrink_retired(std::uint64_t stored_bytes_freed) {
  decrease({.stored = stored_bytes_freed});
}

KeptBatches& RetentionBooks::of(std::uint32_t tenant) {
  while (kept_.size() <= tenant) kept_.emplace_back(of_all_);
  return kept_[tenant];
}

const KeptBatches* RetentionBooks::find(std::uint32_t tenant) const {
  return tenant < kept_.size() ? &kept_[tenant] : nullptr;
}

std::uint64_t RetentionBooks::evictable(std::uint32_t tenant, Resource resource) const {
  const KeptBatches* const kept = find(tenant);
  return kept == nullptr ? 0 : kept->evictable(resource);
}

}  // namespace locksley::daemon

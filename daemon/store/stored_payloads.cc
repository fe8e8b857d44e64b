#include "daemon/store/stored_payloads.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <expected>
#include <stdexcept>
#include <utility>

#include "daemon/base/time.h"
#include "daemon/store/engine.h"
#include "daemon/store/reachability.h"
#include "daemon/store/rows.h"

namespace locksley::daemon {

struct StoredPayloads::Chunk {
  std::uint64_t first = 0;
  std::string bytes;  // `payloads` are views into it
  std::optional<PayloadChunk> payloads;

  bool has(std::uint64_t index) const { return index >= first && index - first < payloads->size(); }
};

StoredPayloads::StoredPayloads(Engine& engine, Reachability& reachability, std::uint64_t sequence,
                               std::string inside, std::chrono::milliseconds patience)
    : engine_(engine), reachability_(reachability), sequence_(sequence), patience_(patience) {
  if (inside.empty()) return;
  auto chunk = std::make_shared<Chunk>();
  chunk->bytes = std::move(inside);
  chunk->payloads = PayloadChunk::of(chunk->bytes);
  // A damaged one is read again when it is needed, and is the job's error then.
  if (chunk->payloads) chunks_.push_back(std::move(chunk));
}

std::size_t StoredPayloads::fetch(std::uint64_t first, std::span<std::string_view> out,
                                  std::string& scratch) {
  scratch.clear();
  std::vector<std::size_t> ends;
  ends.reserve(out.size());
  const auto has_room = [&](std::size_t more) {
    return ends.empty() || scratch.size() + more <= kScratchBytes;
  };
  for (bool goes_on = true; goes_on && ends.size() < out.size();) {
    const std::shared_ptr<const Chunk> chunk = chunk_of(first + ends.size());
    if (chunk == nullptr) break;
    for (std::uint64_t at = first + ends.size() - chunk->first;
         ends.size() < out.size() && at < chunk->payloads->size(); ++at) {
      const std::string_view payload = (*chunk->payloads)[at];
      goes_on = has_room(payload.size());
      if (!goes_on) break;
      scratch.append(payload);
      ends.push_back(scratch.size());
    }
  }
  // Not before: appending may have moved the scratch.
  std::size_t begin = 0;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    out[i] = std::string_view(scratch).substr(begin, ends[i] - begin);
    begin = ends[i];
  }
  return ends.size();
}

std::shared_ptr<const StoredPayloads::Chunk> StoredPayloads::chunk_of(std::uint64_t index) {
  const auto is_it = [index](const std::shared_ptr<const Chunk>& chunk) { return chunk->has(index); };
  {
    const MutexLock lock(mutex_);
    if (const auto found = std::ranges::find_if(chunks_, is_it); found != chunks_.end()) {
      std::rotate(found, found + 1, chunks_.end());
      return chunks_.back();
    }
  }
  std::shared_ptr<const Chunk> chunk = read(index);
  if (chunk == nullptr || chunk->payloads->size() == 1) return chunk;
  const MutexLock lock(mutex_);
  // Another worker may have read the same chunk meanwhile: then it is in the list twice for a
  // while.
  if (chunks_.size() == kMostChunks) chunks_.erase(chunks_.begin());
  chunks_.push_back(chunk);
  return chunk;
}

std::shared_ptr<const StoredPayloads::Chunk> StoredPayloads::read(std::uint64_t index) {
  if (!reachability_.is_reachable()) return nullptr;
  const std::chrono::milliseconds patience = patience_;
  const Instant began = now();
  auto chunk = try_read(index, patience);
  if (chunk) {
    const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(now() - began);
    if (patience != kPatience) patience_ = std::clamp(2 * took, kPatience, kMostPatience);
    return *std::move(chunk);
  }
  if (chunk.error().kind != EngineError::Kind::kAway) {
    throw std::runtime_error(fmt::format("cannot read the store: {}", chunk.error().what));
  }
  patience_ = std::min(2 * patience, kMostPatience);
  reachability_.note_away(sequence_);
  return nullptr;
}

std::expected<std::shared_ptr<const StoredPayloads::Chunk>, EngineError> StoredPayloads::try_read(
    std::uint64_t index, std::chrono::milliseconds patience) const {
  const EngineReading reading(engine_);
  if (!reading.is_valid()) {
    return std::unexpected(EngineError{EngineError::Kind::kAway, "the store is not open"});
  }
  auto chunk = std::make_shared<Chunk>();
  auto row = reading.first_row_within({.table = Table::kPayloads,
                                       .low = part_key(sequence_, 0),
                                       .high = part_key(sequence_ + 1, 0),
                                       .from_at_most = part_key(sequence_, index)},
                                      patience);
  if (!row) return std::unexpected(row.error());
  if (*row) {
    chunk->first = last_number((*row)->key);
    chunk->bytes = std::move((*row)->value);
  } else {
    // Those of a small batch are inside its first row.
    std::string accepted;
    const auto found =
        reading.get_within(Table::kIndex, row_key(kAcceptedKey, sequence_), accepted, patience);
    if (!found) return std::unexpected(found.error());
    const auto split = *found ? split_row(accepted) : std::nullopt;
    if (split) chunk->bytes = split->inside;
  }
  chunk->payloads = PayloadChunk::of(chunk->bytes);
  if (chunk->payloads && chunk->has(index)) return chunk;
  throw std::runtime_error(fmt::format("the store lacks the payload of job {}, or it is damaged", index));
}

void StoredPayloads::drop_cached() {
  const MutexLock lock(mutex_);
  chunks_.clear();
}

std::uint64_t StoredPayloads::memory_bytes() const {
  const MutexLock lock(mutex_);
  std::uint64_t sum = 0;
  for (const auto& chunk : chunks_) sum += chunk->bytes.size();
  return sum;
}

}  // namespace locksley::daemon

#include "daemon/store/stored_payloads.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "daemon/store/codec.h"
#include "daemon/store/database.h"
#include "daemon/store/rows.h"

namespace locksley::daemon {

struct StoredPayloads::Chunk {
  std::uint64_t first = 0;
  rocksdb::PinnableSlice bytes;  // where `payloads` lie
  std::optional<PayloadChunk> payloads;

  bool has(std::uint64_t index) const { return index >= first && index - first < payloads->size(); }
};

void StoredPayloads::fetch(std::uint64_t first, std::span<std::string_view> out, std::string& scratch) {
  scratch.clear();
  std::vector<std::size_t> ends(out.size());
  for (std::size_t done = 0; done < out.size();) {
    const std::shared_ptr<const Chunk> chunk = chunk_of(first + done);
    std::uint64_t at = first + done - chunk->first;
    for (; done < out.size() && at < chunk->payloads->size(); ++at) {
      scratch.append((*chunk->payloads)[at]);
      ends[done++] = scratch.size();
    }
  }
  // Only now: the scratch may have moved.
  std::size_t begin = 0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = std::string_view(scratch).substr(begin, ends[i] - begin);
    begin = ends[i];
  }
}

std::shared_ptr<const StoredPayloads::Chunk> StoredPayloads::chunk_of(std::uint64_t index) {
  const auto is_it = [index](const std::shared_ptr<const Chunk>& chunk) { return chunk->has(index); };
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = std::ranges::find_if(chunks_, is_it); found != chunks_.end()) {
      std::rotate(found, found + 1, chunks_.end());
      return chunks_.back();
    }
  }
  std::shared_ptr<const Chunk> chunk = read(index);
  const std::lock_guard lock(mutex_);
  // Another worker may have read it meanwhile; then it is there twice for a while.
  if (chunks_.size() == kMostChunks) chunks_.erase(chunks_.begin());
  chunks_.push_back(chunk);
  return chunk;
}

std::shared_ptr<const StoredPayloads::Chunk> StoredPayloads::read(std::uint64_t index) const {
  const Database::Reading reading(database_);
  if (!reading.is_valid()) throw std::runtime_error("the store is closed");
  const std::string lowest = part_key(sequence_, 0);
  const rocksdb::Slice bound(lowest);
  rocksdb::ReadOptions options;
  options.verify_checksums = true;
  options.iterate_lower_bound = &bound;
  const std::unique_ptr<rocksdb::Iterator> at(reading.db().NewIterator(options, &reading.payloads()));
  at->SeekForPrev(part_key(sequence_, index));
  if (!at->status().ok()) {
    throw std::runtime_error(fmt::format("the store cannot be read: {}", at->status().ToString()));
  }
  if (at->Valid()) {
    auto chunk = std::make_shared<Chunk>();
    chunk->first = key_number(at->key().ToStringView().substr(sizeof(std::uint64_t)));
    chunk->bytes.PinSelf(at->value());
    chunk->payloads = PayloadChunk::of(chunk->bytes.ToStringView());
    if (chunk->payloads && chunk->has(index)) return chunk;
  }
  throw std::runtime_error(fmt::format("the store lacks the payload of job {}, or it is damaged", index));
}

std::uint64_t StoredPayloads::memory_bytes() const {
  const std::lock_guard lock(mutex_);
  std::uint64_t sum = 0;
  for (const auto& chunk : chunks_) sum += chunk->bytes.size();
  return sum;
}

}  // namespace locksley::daemon

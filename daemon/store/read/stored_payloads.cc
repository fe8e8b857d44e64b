#include "daemon/store/read/stored_payloads.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "daemon/store/engine/engine.h"
#include "daemon/store/read/reachability.h"

namespace locksley::daemon {

StoredPayloads::StoredPayloads(Engine& engine, Reachability& reachability, std::uint64_t sequence,
                               std::string inside, std::chrono::milliseconds patience)
    : sequence_(sequence), engine_(&engine), reachability_(&reachability), patience_(patience) {
  keep_inside(std::move(inside));
}

StoredPayloads::StoredPayloads(PayloadFetcher& fetcher, std::uint64_t sequence, Reader::User user,
                               std::string inside)
    : sequence_(sequence), fetcher_(&fetcher), user_(user) {
  keep_inside(std::move(inside));
}

StoredPayloads::~StoredPayloads() { StoredPayloads::drop_cached(); }

void StoredPayloads::keep_inside(std::string inside) {
  if (inside.empty()) return;
  auto chunk = std::make_shared<StoredChunk>();
  chunk->bytes = std::move(inside);
  chunk->payloads = PayloadChunk::of(chunk->bytes);
  // A damaged chunk is read again when it is needed, and then causes the job's error.
  if (!chunk->payloads) return;
  const MutexLock lock(mutex_);
  chunks_.push_back(std::move(chunk));
}

std::size_t StoredPayloads::fetch(std::uint64_t first, std::span<std::string_view> out,
                                  std::string& scratch) {
  scratch.clear();
  std::vector<std::size_t> ends;
  ends.reserve(out.size());
  const auto has_room = [&](std::size_t more) {
    return ends.empty() || scratch.size() + more <= kScratchBytes;
  };
  Search search{.look = out.size() == 1 ? PayloadFetcher::Look::kLast : PayloadFetcher::Look::kFirst};
  for (bool goes_on = true; goes_on && ends.size() < out.size();) {
    Found found;
    try {
      found = chunk_of(first + ends.size(), search);
    } catch (const std::runtime_error&) {
      // The payloads before this one are returned, since the fetcher does not have them any more.
      // The next fetch begins with this one.
      if (ends.empty()) throw;
      break;
    }
    const auto& [chunk, lies_with] = found;
    if (chunk == nullptr) break;
    for (std::uint64_t at = first + ends.size() - chunk->first;
         ends.size() < out.size() && at < chunk->payloads->size(); ++at) {
      const std::string_view payload = (*chunk->payloads)[at];
      goes_on = has_room(payload.size());
      if (!goes_on) break;
      scratch.append(payload);
      ends.push_back(scratch.size());
    }
    if (goes_on && lies_with != nullptr) fetcher_->drop(*lies_with, *chunk);
  }
  // Not earlier: appending may have moved the scratch.
  std::size_t begin = 0;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    out[i] = std::string_view(scratch).substr(begin, ends[i] - begin);
    begin = ends[i];
  }
  return ends.size();
}

StoredPayloads::Found StoredPayloads::chunk_of(std::uint64_t index, Search& search) {
  PayloadFetcher::SharedWants wants;
  {
    const auto is_it = [index](const SharedChunk& chunk) { return chunk->has(index); };
    const MutexLock lock(mutex_);
    if (const auto found = std::ranges::find_if(chunks_, is_it); found != chunks_.end()) {
      std::rotate(found, found + 1, chunks_.end());
      return {.chunk = chunks_.back()};
    }
    if (fetcher_ != nullptr && wants_ == nullptr) wants_ = fetcher_->open(sequence_, user_);
    wants = wants_;
  }
  SharedChunk chunk;
  if (wants == nullptr) {
    chunk = read(index);
  } else {
    if (!search.until) search.until = now() + fetcher_->patience();
    chunk = fetcher_->find(wants, index, search.look, *search.until);
  }
  if (chunk == nullptr) return {};
  if (chunk->is_of_one_job()) return {.chunk = std::move(chunk), .lies_with = std::move(wants)};
  if (wants != nullptr) fetcher_->drop(*wants, *chunk);
  keep(chunk);
  return {.chunk = std::move(chunk)};
}

void StoredPayloads::keep(const SharedChunk& chunk) {
  const MutexLock lock(mutex_);
  // Another worker may have got the same chunk meanwhile: then it is in the list twice for a while.
  if (std::ranges::find(chunks_, chunk) != chunks_.end()) return;
  if (chunks_.size() == kMostChunks) chunks_.erase(chunks_.begin());
  chunks_.push_back(chunk);
}

SharedChunk StoredPayloads::read(std::uint64_t index) {
  if (!reachability_->is_reachable()) return nullptr;
  const std::chrono::milliseconds patience = patience_;
  const Instant began = now();
  auto chunk = read_chunk(*engine_, sequence_, index, patience);
  if (chunk) {
    const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(now() - began);
    if (patience != ChunkPatience::kFirst) patience_ = ChunkPatience::after_success(took);
    return *std::move(chunk);
  }
  if (chunk.error().kind != EngineError::Kind::kAway) {
    throw std::runtime_error(fmt::format("cannot read the store: {}", chunk.error().what));
  }
  patience_ = ChunkPatience::after_failure(patience);
  reachability_->note_away(sequence_);
  return nullptr;
}

void StoredPayloads::drop_cached() {
  PayloadFetcher::SharedWants wants;
  {
    const MutexLock lock(mutex_);
    chunks_.clear();
    wants = wants_;
  }
  if (wants != nullptr) fetcher_->close(*wants);
}

std::uint64_t StoredPayloads::memory_bytes() const {
  const MutexLock lock(mutex_);
  std::uint64_t sum = wants_ == nullptr ? 0 : wants_->held_bytes();
  for (const SharedChunk& chunk : chunks_) sum += chunk->bytes.size();
  return sum;
}

}  // namespace locksley::daemon

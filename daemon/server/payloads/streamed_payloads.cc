#include "daemon/server/payloads/streamed_payloads.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/check.h"

namespace locksley::daemon {

void StreamedPayloads::add(const std::shared_ptr<const proto::ArgumentList>& payloads, Place place) {
  const std::size_t added = payloads->size();
  if (place == Place::kStore) return add_stored(added);
  if (added == 0) return;
  const WriterLock lock(mutex_);
  if (payloads->payload_bytes() <= kCopiedBytes && added <= kMostCopied) {
    copy(*payloads);
    count_ += added;
    return;
  }
  memory_bytes_ += payloads->memory_bytes();
  pieces_.push_back({.first = count_, .received = payloads, .bytes = nullptr, .ends = {}});
  count_ += added;
}

void StreamedPayloads::copy(const proto::ArgumentList& payloads) {
  constexpr std::size_t kMostEnds = kPieceBytes / 4;  // empty payloads take no bytes, but must end somewhere
  const bool fits = !pieces_.empty() && pieces_.back().bytes != nullptr &&
                    pieces_.back().used + payloads.payload_bytes() <= kPieceBytes &&
                    pieces_.back().ends.size() < kMostEnds;
  if (!fits) {
    pieces_.push_back({.first = count_,
                       .received = nullptr,
                       .bytes = std::make_unique_for_overwrite<char[]>(kPieceBytes),
                       .ends = {}});
    memory_bytes_ += kPieceBytes;
  }
  Piece& piece = pieces_.back();
  for (const std::string_view payload : payloads) {
    std::memcpy(piece.bytes.get() + piece.used, payload.data(), payload.size());
    piece.used += payload.size();
    piece.ends.push_back(static_cast<std::uint32_t>(piece.used));
  }
  memory_bytes_ += payloads.size() * sizeof(std::uint32_t);
}

void StreamedPayloads::add_stored(std::uint64_t count) {
  check(stored_ != nullptr, "payloads are to be in the store, which does not have this batch");
  const WriterLock lock(mutex_);
  if (count != 0 && (pieces_.empty() || pieces_.back().is_in_memory())) {
    pieces_.push_back({.first = count_, .received = nullptr, .bytes = nullptr, .ends = {}});
  }
  count_ += count;
}

void StreamedPayloads::withdraw(std::uint64_t count) {
  const WriterLock lock(mutex_);
  count_ -= count;
  while (!pieces_.empty() && pieces_.back().first >= count_) {
    memory_bytes_ -= pieces_.back().memory_bytes();
    pieces_.pop_back();
  }
  // A piece that several were copied into keeps the others.
  if (!pieces_.empty() && pieces_.back().bytes != nullptr) {
    Piece& last = pieces_.back();
    memory_bytes_ -= last.memory_bytes();
    last.ends.resize(std::min<std::size_t>(last.ends.size(), count_ - last.first));
    last.used = last.ends.empty() ? 0 : last.ends.back();
    memory_bytes_ += last.memory_bytes();
  }
}

StreamedPayloads::Pieces::const_iterator StreamedPayloads::piece_of(std::uint64_t index) const {
  return std::upper_bound(pieces_.begin(), pieces_.end(), index,
                          [](std::uint64_t wanted, const Piece& piece) { return wanted < piece.first; }) -
         1;
}

std::size_t StreamedPayloads::fetch(std::uint64_t first, std::span<std::string_view> out,
                                    std::string& scratch) {
  // If one of them is not in memory, the store has all: no job is claimed before it is there. The
  // lock is not held while the disk is read.
  return fetch_from_memory(first, out) ? out.size() : stored_->fetch(first, out, scratch);
}

bool StreamedPayloads::fetch_from_memory(std::uint64_t first, std::span<std::string_view> out) const {
  const ReaderLock lock(mutex_);
  check(first + out.size() <= count_, "a job beyond the end of its batch was claimed");
  auto piece = piece_of(first);
  const auto last = piece_of(first + out.size() - 1);
  if (!std::all_of(piece, last + 1, [](const Piece& each) { return each.is_in_memory(); })) return false;
  std::size_t done = 0;
  while (done < out.size()) {
    const std::size_t skip = static_cast<std::size_t>(first + done - piece->first);
    if (piece->bytes == nullptr) {
      done += piece->received->fetch(skip, out.subspan(done));
    } else {
      const std::size_t n = std::min(out.size() - done, piece->ends.size() - skip);
      std::size_t begin = skip == 0 ? 0 : piece->ends[skip - 1];
      for (std::size_t i = 0; i < n; ++i) {
        const std::size_t end = piece->ends[skip + i];
        out[done + i] = {piece->bytes.get() + begin, end - begin};
        begin = end;
      }
      done += n;
    }
    ++piece;
  }
  return true;
}

std::optional<HeldPayload> StreamedPayloads::in_memory(std::uint64_t index) {
  std::shared_ptr<const proto::ArgumentList> received;
  {
    const ReaderLock lock(mutex_);
    if (index >= count_ || pieces_.empty()) return std::nullopt;
    received = piece_of(index)->received;
  }
  // This thread alone changes them.
  std::string_view payload;
  if (!fetch_from_memory(index, {&payload, 1})) return std::nullopt;
  return received == nullptr ? HeldPayload::of(std::string(payload))
                             : HeldPayload{std::move(received), payload};
}

BatchPayloads::Released StreamedPayloads::release(FailedJobs failed_jobs, Repetition) {
  const bool may_run_again = failed_jobs == FailedJobs::kMayRunAgain;
  if (stored_ != nullptr) stored_->drop_cached();
  if (may_run_again && stored_ == nullptr) {
    return {.freed = nullptr, .freed_bytes = 0, .kept_bytes = memory_bytes_.load()};
  }
  const auto freed = std::make_shared<Pieces>();
  const WriterLock lock(mutex_);
  freed->swap(pieces_);
  if (may_run_again) pieces_.push_back({.first = 0, .received = nullptr, .bytes = nullptr, .ends = {}});
  return {.freed = freed, .freed_bytes = memory_bytes_.exchange(0)};
}

std::uint64_t StreamedPayloads::Piece::memory_bytes() const {
  if (received != nullptr) return received->memory_bytes();
  return bytes != nullptr ? kPieceBytes + ends.size() * sizeof(std::uint32_t) : 0;
}

BatchPayloads::Released StreamedPayloads::keep_only(std::span<const IndexRange> wanted) {
  if (stored_ != nullptr) stored_->drop_cached();
  const auto freed = std::make_shared<Pieces>();
  const std::uint64_t before = memory_bytes_;
  Pieces left;
  const WriterLock lock(mutex_);
  auto next = wanted.begin();
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    const std::uint64_t first = pieces_[i].first;
    const std::uint64_t end = i + 1 < pieces_.size() ? pieces_[i + 1].first : count_;
    while (next != wanted.end() && next->high <= first) ++next;
    if (pieces_[i].is_in_memory() && next != wanted.end() && next->low < end) {
      left.push_back(std::move(pieces_[i]));
      continue;
    }
    // One piece for all that follow each other: a stream may go on for millions of ADDs.
    if (left.empty() || left.back().is_in_memory())
      left.push_back({.first = first, .received = nullptr, .bytes = nullptr, .ends = {}});
    if (!pieces_[i].is_in_memory()) continue;
    memory_bytes_ -= pieces_[i].memory_bytes();
    freed->push_back(std::move(pieces_[i]));
  }
  pieces_.swap(left);
  return {.freed = freed, .freed_bytes = before - memory_bytes_};
}

}  // namespace locksley::daemon

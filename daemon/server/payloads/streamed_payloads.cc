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
  segments_.push_back({.first = count_, .received = payloads, .bytes = nullptr, .ends = {}});
  count_ += added;
}

void StreamedPayloads::copy(const proto::ArgumentList& payloads) {
  constexpr std::size_t kMostEnds = kSegmentBytes / 4;  // so that a segment of empty payloads is bounded, too
  const bool fits = !segments_.empty() && segments_.back().bytes != nullptr &&
                    segments_.back().used + payloads.payload_bytes() <= kSegmentBytes &&
                    segments_.back().ends.size() < kMostEnds;
  if (!fits) {
    segments_.push_back({.first = count_,
                         .received = nullptr,
                         .bytes = std::make_unique_for_overwrite<char[]>(kSegmentBytes),
                         .ends = {}});
    memory_bytes_ += kSegmentBytes;
  }
  Segment& segment = segments_.back();
  for (const std::string_view payload : payloads) {
    std::memcpy(segment.bytes.get() + segment.used, payload.data(), payload.size());
    segment.used += payload.size();
    segment.ends.push_back(static_cast<std::uint32_t>(segment.used));
  }
  memory_bytes_ += payloads.size() * sizeof(std::uint32_t);
}

void StreamedPayloads::add_stored(std::uint64_t count) {
  check(stored_ != nullptr, "payloads are to be in the store, which does not have this batch");
  const WriterLock lock(mutex_);
  if (count != 0 && (segments_.empty() || segments_.back().is_in_memory())) {
    segments_.push_back({.first = count_, .received = nullptr, .bytes = nullptr, .ends = {}});
  }
  count_ += count;
}

void StreamedPayloads::withdraw(std::uint64_t count) {
  const WriterLock lock(mutex_);
  count_ -= count;
  while (!segments_.empty() && segments_.back().first >= count_) {
    memory_bytes_ -= segments_.back().memory_bytes();
    segments_.pop_back();
  }
  // A segment into which several ADDs were copied keeps the others' payloads.
  if (!segments_.empty() && segments_.back().bytes != nullptr) {
    Segment& last = segments_.back();
    memory_bytes_ -= last.memory_bytes();
    last.ends.resize(std::min<std::size_t>(last.ends.size(), count_ - last.first));
    last.used = last.ends.empty() ? 0 : last.ends.back();
    memory_bytes_ += last.memory_bytes();
  }
}

StreamedPayloads::Segments::const_iterator StreamedPayloads::segment_of(std::uint64_t index) const {
  return std::upper_bound(
             segments_.begin(), segments_.end(), index,
             [](std::uint64_t wanted, const Segment& segment) { return wanted < segment.first; }) -
         1;
}

std::size_t StreamedPayloads::fetch(std::uint64_t first, std::span<std::string_view> out,
                                    std::string& scratch) {
  // If one of them is not in memory, the store has them all: no job is claimed before its payload
  // is stored. The lock is not held while the disk is read.
  return fetch_from_memory(first, out) ? out.size() : stored_->fetch(first, out, scratch);
}

bool StreamedPayloads::fetch_from_memory(std::uint64_t first, std::span<std::string_view> out) const {
  const ReaderLock lock(mutex_);
  check(first + out.size() <= count_, "a job beyond the end of its batch was claimed");
  auto segment = segment_of(first);
  const auto last = segment_of(first + out.size() - 1);
  if (!std::all_of(segment, last + 1, [](const Segment& each) { return each.is_in_memory(); })) return false;
  std::size_t done = 0;
  while (done < out.size()) {
    const std::size_t skip = static_cast<std::size_t>(first + done - segment->first);
    if (segment->bytes == nullptr) {
      done += segment->received->fetch(skip, out.subspan(done));
    } else {
      const std::size_t n = std::min(out.size() - done, segment->ends.size() - skip);
      std::size_t begin = skip == 0 ? 0 : segment->ends[skip - 1];
      for (std::size_t i = 0; i < n; ++i) {
        const std::size_t end = segment->ends[skip + i];
        out[done + i] = {segment->bytes.get() + begin, end - begin};
        begin = end;
      }
      done += n;
    }
    ++segment;
  }
  return true;
}

std::optional<HeldPayload> StreamedPayloads::in_memory(std::uint64_t index) {
  std::shared_ptr<const proto::ArgumentList> received;
  {
    const ReaderLock lock(mutex_);
    if (index >= count_ || segments_.empty()) return std::nullopt;
    received = segment_of(index)->received;
  }
  // Only this thread changes the segments.
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
  const auto freed = std::make_shared<Segments>();
  const WriterLock lock(mutex_);
  freed->swap(segments_);
  if (may_run_again) segments_.push_back({.first = 0, .received = nullptr, .bytes = nullptr, .ends = {}});
  return {.freed = freed, .freed_bytes = memory_bytes_.exchange(0)};
}

std::uint64_t StreamedPayloads::Segment::memory_bytes() const {
  if (received != nullptr) return received->memory_bytes();
  return bytes != nullptr ? kSegmentBytes + ends.size() * sizeof(std::uint32_t) : 0;
}

BatchPayloads::Released StreamedPayloads::keep_only(std::span<const IndexRange> wanted) {
  if (stored_ != nullptr) stored_->drop_cached();
  const auto freed = std::make_shared<Segments>();
  const std::uint64_t before = memory_bytes_;
  Segments left;
  const WriterLock lock(mutex_);
  auto next = wanted.begin();
  for (std::size_t i = 0; i < segments_.size(); ++i) {
    const std::uint64_t first = segments_[i].first;
    const std::uint64_t end = i + 1 < segments_.size() ? segments_[i + 1].first : count_;
    while (next != wanted.end() && next->high <= first) ++next;
    if (segments_[i].is_in_memory() && next != wanted.end() && next->low < end) {
      left.push_back(std::move(segments_[i]));
      continue;
    }
    // Successive segments that are not in memory become one: a stream may go on for millions of
    // ADDs.
    if (left.empty() || left.back().is_in_memory())
      left.push_back({.first = first, .received = nullptr, .bytes = nullptr, .ends = {}});
    if (!segments_[i].is_in_memory()) continue;
    memory_bytes_ -= segments_[i].memory_bytes();
    freed->push_back(std::move(segments_[i]));
  }
  segments_.swap(left);
  return {.freed = freed, .freed_bytes = before - memory_bytes_};
}

}  // namespace locksley::daemon

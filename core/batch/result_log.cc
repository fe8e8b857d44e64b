#include "core/batch/result_log.h"

#include <algorithm>
#include <utility>

#include "core/base/index_ranges.h"

namespace locksley {
namespace {

// About how many bytes a row takes in a compact form, in addition to its output.
constexpr std::size_t kStoredHeadBytes = 4;
constexpr std::size_t kFirstChunkBytes = 512;
constexpr std::size_t kLargestChunkBytes = 256 * 1024;
// A publication of at least this many bytes gets a chunk of its own, which is filled outside the
// mutex: copying 4 KiB takes about as long as taking the lock.
constexpr std::size_t kOwnChunkBytes = 4096;

// Visits at most `most` rows of the runs, beginning with row number `skip`, until `visit` returns
// false.
std::uint64_t visit_runs(const ResultLog::Chunk& chunk, std::uint64_t skip, std::uint64_t most,
                         const std::function<bool(const ResultRow&)>& visit) {
  std::uint64_t consumed = 0;
  for (const IndexRange& run : chunk.runs) {
    const std::uint64_t passed = std::min(skip, run.size());
    skip -= passed;
    for (std::uint64_t index = run.low + passed; index < run.high; ++index) {
      if (consumed == most || !visit({index, chunk.run_status, chunk.run_reason})) return consumed;
      ++consumed;
    }
  }
  return consumed;
}

}  // namespace

ResultRow ResultHead::with_facts(std::uint64_t index, JobStatus status, std::string_view bytes) {
  std::uint32_t length = 0;
  if (bytes.size() < kFactsLength) return {index, status, bytes};
  std::memcpy(&length, bytes.data() + bytes.size() - kFactsLength, kFactsLength);
  const std::size_t before = bytes.size() - kFactsLength;
  if (length > before) return {index, status, bytes};
  return {index, status, bytes.substr(0, before - length), bytes.substr(before - length, length)};
}

void append_row(std::vector<std::byte>& rows, std::uint64_t index, JobStatus status,
                std::string_view output) {
  const ResultHead head{index, static_cast<std::uint32_t>(output.size()), status, {}};
  const std::size_t begin = rows.size();
  rows.resize(begin + ResultHead::bytes_of(output.size()));
  std::memcpy(rows.data() + begin, &head, sizeof head);
  if (!output.empty()) std::memcpy(rows.data() + begin + sizeof head, output.data(), output.size());
}

ResultLog::Prepared ResultLog::prepare(const EncodedRows& rows, OtherRows others) {
  const std::span<const std::byte> bytes = rows.bytes;
  Prepared prepared{nullptr, rows, others == OtherRows::kPossible};
  if (bytes.size() >= kOwnChunkBytes) {
    try {
      prepared.chunk = std::make_shared<Chunk>();
      prepared.chunk->bytes = std::make_unique_for_overwrite<std::byte[]>(bytes.size());
    } catch (const std::bad_alloc&) {
      throw NoMemoryForRows();
    }
    prepared.chunk->capacity = bytes.size();
    std::memcpy(prepared.chunk->bytes.get(), bytes.data(), bytes.size());
  }
  return prepared;
}

ResultLog::Entry* ResultLog::tail_with_room(std::size_t size) {
  if (dropped_ == entries_.size()) return nullptr;
  Entry& tail = entries_.back();
  const bool has_room = tail.chunk->bytes != nullptr && tail.chunk->capacity - tail.size_bytes >= size;
  return has_room ? &tail : nullptr;
}

void ResultLog::drop_spare() {
  if (spare_ == nullptr) return;
  memory_bytes_ -= memory_of(*spare_);
  spare_ = nullptr;
}

void ResultLog::reserve(const Prepared& prepared) {
  if (prepared.rows.count == 0) return;
  const std::size_t size = prepared.rows.bytes.size();
  try {
    if (entries_.size() == entries_.capacity())
      entries_.reserve(std::max<std::size_t>(1, 2 * entries_.size()));
    if (prepared.chunk != nullptr || tail_with_room(size) != nullptr) return;
    if (spare_ != nullptr && spare_->capacity >= size) return;
    std::size_t capacity = size <= kFirstChunkBytes / 4 ? size : kFirstChunkBytes;
    if (dropped_ != entries_.size()) {
      capacity = std::clamp(entries_.back().chunk->capacity * 2, kFirstChunkBytes, kLargestChunkBytes);
    }
    auto chunk = std::make_shared<Chunk>();
    chunk->capacity = std::max(capacity, size);
    chunk->bytes = std::make_unique_for_overwrite<std::byte[]>(chunk->capacity);
    drop_spare();
    memory_bytes_ += memory_of(*chunk);
    spare_ = std::move(chunk);
  } catch (const std::bad_alloc&) {
    throw NoMemoryForRows();
  }
}

ResultLog::Rows ResultLog::append(Prepared prepared) {
  const std::uint64_t count = prepared.rows.count;
  if (count == 0) {
    drop_spare();
    return {};
  }
  reserve(prepared);
  const std::size_t size = prepared.rows.bytes.size();
  const std::uint64_t before = std::exchange(
      appended_bytes_, appended_bytes_ + size - count * (sizeof(ResultHead) - kStoredHeadBytes));
  if (prepared.chunk) {
    drop_spare();
    memory_bytes_ += sizeof(Chunk) + sizeof(Entry) + prepared.chunk->capacity;
    const Rows appended{prepared.chunk, 0, size, rows_, count, before, prepared.has_others};
    entries_.push_back({std::move(prepared.chunk), rows_, count, size, before, prepared.has_others});
    rows_ += count;
    return appended;
  }
  Entry* tail = tail_with_room(size);
  if (tail == nullptr) {
    entries_.push_back({std::exchange(spare_, nullptr), rows_, 0, 0, before, false});
    tail = &entries_.back();
  }
  drop_spare();
  // These bytes lie beyond the end of every snapshot: no reader reads them.
  std::memcpy(tail->chunk->bytes.get() + tail->size_bytes, prepared.rows.bytes.data(), size);
  const Rows appended{tail->chunk, tail->size_bytes, size, rows_, count, before, prepared.has_others};
  tail->has_others |= prepared.has_others;
  tail->size_bytes += size;
  tail->rows += count;
  rows_ += count;
  return appended;
}

ResultLog::Rows ResultLog::append_runs(std::span<const IndexRange> runs, JobStatus status,
                                       std::string reason) {
  const std::uint64_t count = count_of(runs);
  if (count == 0) return {};
  auto chunk = std::make_shared<Chunk>();
  chunk->runs.assign(runs.begin(), runs.end());
  chunk->run_status = status;
  chunk->run_reason = std::move(reason);
  memory_bytes_ += memory_of(*chunk);
  const Rows appended{chunk, 0, 0, rows_, count, appended_bytes_, true};
  entries_.push_back({std::move(chunk), rows_, count, 0, appended_bytes_, true});
  rows_ += count;
  return appended;
}

std::uint64_t ResultLog::memory_of(const Chunk& chunk) {
  const std::uint64_t held = chunk.bytes != nullptr ? chunk.capacity : chunk.run_reason.capacity();
  return sizeof(Chunk) + sizeof(Entry) + held + chunk.runs.capacity() * sizeof(IndexRange);
}

bool ResultLog::drop_before(std::uint64_t row, std::size_t most) {
  const auto has_more = [&] {
    return dropped_ < entries_.size() && entries_[dropped_].first_row + entries_[dropped_].rows <= row;
  };
  for (; most != 0 && has_more(); --most) {
    memory_bytes_ -= memory_of(*entries_[dropped_].chunk);
    entries_[dropped_++].chunk.reset();
  }
  const bool is_done = !has_more();
  // Not in each call, since that would move the other entries each time.
  if (dropped_ > entries_.size() / 2) {
    entries_.erase(entries_.begin(), entries_.begin() + static_cast<std::ptrdiff_t>(dropped_));
    dropped_ = 0;
  }
  first_row_ = dropped_ == entries_.size() ? rows_ : entries_[dropped_].first_row;
  return is_done;
}

std::optional<ResultLog::Place> ResultLog::place_of(std::uint64_t row) const {
  if (row >= rows_) return Place{rows_, appended_bytes_};
  if (row < first_row_) return std::nullopt;
  const auto after =
      std::upper_bound(entries_.begin() + static_cast<std::ptrdiff_t>(dropped_), entries_.end(), row,
                       [](std::uint64_t at, const Entry& e) { return at < e.first_row; });
  const Entry& entry = *std::prev(after);
  return Place{entry.first_row, entry.bytes_before};
}

void ResultLog::discard_before(std::uint64_t row, const Place& place) {
  discarded_ = std::max(discarded_, std::min(row, rows_));
  discarded_bytes_ = std::max(discarded_bytes_, place.bytes_before);
}

std::vector<ResultLog::Segment> ResultLog::snapshot(std::uint64_t first, std::uint64_t max_rows,
                                                    std::uint64_t max_bytes) const {
  std::vector<Segment> segments;
  if (first >= rows_ || max_rows == 0) return segments;
  const std::uint64_t end = rows_ - first > max_rows ? first + max_rows : rows_;
  auto entry = std::upper_bound(entries_.begin(), entries_.end(), first,
                                [](std::uint64_t row, const Entry& e) { return row < e.first_row; });
  // All rows of the first chunk but one may lie before `first`, so its bytes do not count.
  std::uint64_t bytes = 0;
  for (--entry; entry != entries_.end() && entry->first_row < end; ++entry) {
    if (!segments.empty()) {
      if (segments.size() == kMostSegments || bytes >= max_bytes) break;
      bytes += entry->size_bytes;
    }
    segments.push_back({entry->chunk, entry->first_row, entry->rows, entry->size_bytes, entry->has_others});
  }
  return segments;
}

ResultLog::Others ResultLog::others(std::uint64_t first, std::size_t most) const {
  Others found{{}, std::max(first, rows_)};
  if (first >= rows_) return found;
  auto entry = std::upper_bound(entries_.begin(), entries_.end(), first,
                                [](std::uint64_t row, const Entry& e) { return row < e.first_row; });
  std::size_t passed = 0;
  for (--entry; entry != entries_.end(); ++entry) {
    if (found.segments.size() == most || ++passed > kMostPassed) {
      found.end = std::max(first, entry->first_row);
      break;
    }
    if (!entry->has_others) continue;
    found.segments.push_back({entry->chunk, entry->first_row, entry->rows, entry->size_bytes, true});
  }
  return found;
}

std::uint64_t ResultLog::visit_others(std::span<const Segment> segments, std::uint64_t first,
                                      std::uint64_t end,
                                      const std::function<bool(std::uint64_t, const ResultRow&)>& visit) {
  for (const Segment& segment : segments) {
    std::uint64_t place = std::max(first, segment.first_row);
    const std::uint64_t segment_end = segment.first_row + segment.rows;
    if (place >= segment_end) continue;
    bool goes_on = true;
    ResultLog::visit({&segment, 1}, place, segment_end - place, [&](const ResultRow& row) {
      goes_on = row.status == JobStatus::kOk || visit(place, row);
      if (goes_on) ++place;
      return goes_on;
    });
    if (!goes_on) return place;
  }
  return end;
}

std::uint64_t ResultLog::visit(std::span<const Segment> segments, std::uint64_t first, std::uint64_t max_rows,
                               const std::function<bool(const ResultRow&)>& visit) {
  std::uint64_t consumed = 0;
  for (const Segment& segment : segments) {
    const Chunk& chunk = *segment.chunk;
    std::uint64_t row = segment.first_row;
    const std::uint64_t end = segment.first_row + segment.rows;
    if (chunk.bytes == nullptr) {
      const std::uint64_t most = max_rows - consumed;
      const std::uint64_t skipped = first - std::min(first, row);
      const std::uint64_t visited = visit_runs(chunk, skipped, most, visit);
      consumed += visited;
      if (visited < std::min(most, segment.rows - std::min(segment.rows, skipped))) return consumed;
      continue;
    }
    const std::byte* at = chunk.bytes.get();
    for (; row < end; ++row) {
      ResultHead head;
      std::memcpy(&head, at, sizeof head);
      if (row >= first) {
        if (consumed == max_rows) return consumed;
        const auto* text = reinterpret_cast<const char*>(at + sizeof head);
        if (!visit(head.row({text, head.length}))) return consumed;
        ++consumed;
      }
      at += ResultHead::bytes_of(head.length);
    }
  }
  return consumed;
}

}  // namespace locksley

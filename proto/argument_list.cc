#include "proto/argument_list.h"

#include <string.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "proto/bulk.h"

namespace locksley::proto {
namespace {

constexpr std::size_t kFirstSlices = 16;   // a status command with room to spare, in 128 bytes
constexpr std::size_t kSlicesKept = 1024;  // guess: clear() keeps 8 KiB for the next command, no more
constexpr std::size_t kSegmentsKept = 64;  // likewise 1 KiB
// Bytes of protocol for each argument that compact() counts as used: "$32\r\n…\r\n".
constexpr std::size_t kFramingAllowance = 16;

}  // namespace

void ArgumentList::wipe(std::size_t i) {
  const std::string_view secret = (*this)[i];
  ::explicit_bzero(const_cast<char*>(secret.data()), secret.size());
}

ArgumentList ArgumentList::copy_of(std::span<const std::string_view> arguments) {
  ArgumentList list;
  if (arguments.empty()) return list;
  std::size_t bytes = 0;
  for (std::string_view one : arguments) bytes += one.size();
  const BlockRef block = BlockRef::make(bytes);
  list.open_segment(block);
  list.grow(arguments.size());
  std::uint32_t offset = 0;
  for (std::string_view one : arguments) {
    if (!one.empty()) std::memcpy(block->data() + offset, one.data(), one.size());
    list.append({offset, static_cast<std::uint32_t>(one.size())}, arguments.size());
    offset += static_cast<std::uint32_t>(one.size());
  }
  return list;
}

std::size_t ArgumentList::fetch(std::size_t first, std::span<std::string_view> out) const {
  if (first >= size()) return 0;
  const std::size_t count = std::min(out.size(), size() - first);
  if (count == 0) return 0;
  std::size_t index = begin_ + first;
  const std::size_t end = index + count;
  const Segment* segment = segment_of(index);
  const Segment* const last = &segments_.back();
  std::string_view* to = out.data();
  while (index < end) {
    const std::size_t run_end = segment == last ? end : std::min(end, segment[1].first);
    const char* const base = segment->block->data();
    for (; index < run_end; ++index) *to++ = {base + slices_[index].offset, slices_[index].length};
    ++segment;
  }
  return count;
}

const ArgumentList::Segment* ArgumentList::segment_of(std::size_t index) const {
  const auto after =
      std::upper_bound(segments_.begin(), segments_.end(), index,
                       [](std::size_t i, const Segment& segment) { return i < segment.first; });
  return &*(after - 1);
}

std::size_t ArgumentList::memory_bytes() const {
  std::size_t bytes = capacity_ * sizeof(Slice) + segments_.capacity() * sizeof(Segment);
  for (const Segment& segment : segments_) bytes += segment.block->capacity();
  return bytes;
}

void ArgumentList::drop_front(std::size_t n) {
  if (n >= size()) {
    clear();
    return;
  }
  for (std::size_t i = begin_; i < begin_ + n; ++i) payload_bytes_ -= slices_[i].length;
  begin_ += n;
  segments_.erase(segments_.begin(), segments_.begin() + (segment_of(begin_) - segments_.data()));
}

bool ArgumentList::compact() {
  std::size_t held = 0;
  for (const Segment& segment : segments_) held += segment.block->capacity();
  const bool is_well_used = held <= 2 * (payload_bytes_ + kFramingAllowance * size());
  if (is_well_used || payload_bytes_ > Block::kMaxCapacity) return false;
  ArgumentList copy;
  const BlockRef block =
      BlockRef::make(payload_bytes_, segments_.empty() ? nullptr : segments_.front().block->pool());
  copy.grow(size());
  std::uint32_t offset = 0;
  for (std::string_view one : *this) {
    copy_bytes(block->data() + offset, one);
    copy.append({offset, static_cast<std::uint32_t>(one.size())}, size());
    offset += static_cast<std::uint32_t>(one.size());
  }
  if (segments_.capacity() == 1) {  // as for a small command: its array is used again
    copy.segments_.swap(segments_);
    copy.segments_.front() = {block, 0};
  } else {
    copy.segments_.emplace_back(block, 0);
  }
  swap(copy);
  return true;
}

void ArgumentList::clear() {
  segments_.clear();
  if (segments_.capacity() > kSegmentsKept) segments_.shrink_to_fit();
  if (capacity_ > kSlicesKept) {
    slices_.reset();
    slices_.get_deleter().bytes = 0;
    capacity_ = 0;
  }
  begin_ = 0;
  end_ = 0;
  payload_bytes_ = longest_bound_ = 0;
}

void ArgumentList::open_segment(const BlockRef& block) {
  if (!segments_.empty()) {
    Segment& last = segments_.back();
    if (last.block == block) return;
    if (last.first == end_) {  // no argument begins in it
      last.block = block;
      return;
    }
  }
  segments_.emplace_back(block, end_);
}

void ArgumentList::Free::operator()(Slice* slices) const {
  if (bytes < kMappedBytes) {
    std::free(slices);
  } else {
    ::munmap(slices, bytes);
  }
}

void ArgumentList::grow(std::size_t most) {
  std::size_t capacity = capacity_ == 0 ? kFirstSlices : 2 * capacity_;
  if (most > capacity_) capacity = std::min(capacity, most);
  const std::size_t before = slices_.get_deleter().bytes;
  const std::size_t bytes = capacity * sizeof(Slice);
  void* grown = nullptr;
  if (bytes < kMappedBytes) {
    grown = std::realloc(slices_.get(), bytes);
  } else if (before < kMappedBytes) {
    grown = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  } else {
    grown = ::mremap(slices_.get(), before, bytes, MREMAP_MAYMOVE);
  }
  if (grown == nullptr || grown == MAP_FAILED) throw std::bad_alloc();
  if (bytes >= kMappedBytes && before < kMappedBytes) {
    if (end_ != 0) std::memcpy(grown, slices_.get(), end_ * sizeof(Slice));
  } else {
    static_cast<void>(slices_.release());  // realloc or mremap has taken it over
  }
  slices_.reset();
  slices_.get_deleter().bytes = bytes;
  slices_.reset(static_cast<Slice*>(grown));
  capacity_ = capacity;
}

}  // namespace locksley::proto

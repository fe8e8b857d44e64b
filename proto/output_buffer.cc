#include "proto/output_buffer.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <new>
#include <utility>

namespace locksley::proto {
namespace {
constexpr std::size_t kChunkGrowth = 4;
constexpr std::size_t kPages = 64 * 1024;  // chunks of at least this size are mapped pages

char* new_chunk(std::size_t capacity) {
  if (capacity < kPages) return new char[capacity];
  void* const pages = ::mmap(nullptr, capacity, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) throw std::bad_alloc();
  return static_cast<char*>(pages);
}

void free_chunk(char* bytes, std::size_t capacity) {
  if (capacity < kPages) {
    delete[] bytes;
  } else {
    ::munmap(bytes, capacity);
  }
}

// Chunks that were just freed, for the same thread's next buffers. Each fresh page costs a page
// fault. First chunks are freed by dozens, when the replies to many clients have been sent, and
// glibc keeps seven of a size for a thread.
class KeptChunks {
 public:
  KeptChunks() {
    for (std::size_t kind = 0; kind < std::size(kKinds); ++kind) free_[kind].reserve(kKinds[kind].most);
  }
  KeptChunks(const KeptChunks&) = delete;
  KeptChunks& operator=(const KeptChunks&) = delete;
  ~KeptChunks() {
    for (std::size_t kind = 0; kind < std::size(kKinds); ++kind) {
      for (char* bytes : free_[kind]) free_chunk(bytes, kKinds[kind].size);
    }
  }
  // Null: none is kept.
  char* take(std::size_t capacity) {
    const Kind* const kind = kind_of(capacity);
    if (kind == nullptr || free_of(*kind).empty()) return nullptr;
    char* const bytes = free_of(*kind).back();
    free_of(*kind).pop_back();
    return bytes;
  }
  bool keep(char* bytes, std::size_t capacity) {
    const Kind* const kind = kind_of(capacity);
    if (kind == nullptr || free_of(*kind).size() == kind->most) return false;
    free_of(*kind).push_back(bytes);
    return true;
  }

 private:
  struct Kind {
    std::size_t size;
    std::size_t most;
  };
  // The sizes of nearly all chunks. Large chunks: as many as one busy connection uses.
  static constexpr Kind kKinds[] = {
      {OutputBuffer::kFirstChunkBytes, 64}, {kPages, 8}, {OutputBuffer::kChunkBytes, 8}};

  static const Kind* kind_of(std::size_t capacity) {
    const auto* const found = std::ranges::find(kKinds, capacity, &Kind::size);
    return found == std::end(kKinds) ? nullptr : found;
  }
  std::vector<char*>& free_of(const Kind& kind) { return free_[static_cast<std::size_t>(&kind - kKinds)]; }

  std::array<std::vector<char*>, std::size(kKinds)> free_;
};
thread_local KeptChunks kept_chunks;
}  // namespace

OutputBuffer::Bytes OutputBuffer::allocate(std::size_t capacity) {
  char* const kept = kept_chunks.take(capacity);
  return {kept != nullptr ? kept : new_chunk(capacity), Release{capacity}};
}

void OutputBuffer::Release::operator()(char* bytes) const {
  if (capacity != 0 && !kept_chunks.keep(bytes, capacity)) free_chunk(bytes, capacity);
}

OutputBuffer::OutputBuffer(OutputBuffer&& other) noexcept { *this = std::move(other); }

OutputBuffer OutputBuffer::of_views() {
  OutputBuffer buffer;
  buffer.has_views_ = true;
  return buffer;
}

OutputBuffer& OutputBuffer::operator=(OutputBuffer&& other) noexcept {
  if (this != &other) {
    chunks_ = std::exchange(other.chunks_, {});
    next_ = std::exchange(other.next_, nullptr);
    limit_ = std::exchange(other.limit_, nullptr);
    size_ = std::exchange(other.size_, 0);
    has_views_ = other.has_views_;
  }
  return *this;
}

void OutputBuffer::append(OutputBuffer&& other) {
  if (empty()) {
    *this = std::move(other);
    return;
  }
  constexpr std::size_t kFewBytes = 16 * 1024;  // to copy them costs less than a chunk that is half empty
  if (other.size() <= kFewBytes) {
    for (std::size_t i = 0; i < other.chunks_.size(); ++i) {
      const Chunk& chunk = other.chunks_[i];
      append({chunk.bytes.get() + chunk.begin, other.end_of(i) - chunk.begin});
    }
  } else {
    chunks_.back().end = end_of(chunks_.size() - 1);
    std::ranges::move(other.chunks_, std::back_inserter(chunks_));
    next_ = other.next_;
    limit_ = other.limit_;
    size_ += other.size_;
  }
  other.clear();
}

void OutputBuffer::append_large(std::string_view bytes) {
  if (!has_views_) return append(bytes);
  if (bytes.empty()) return;
  if (!chunks_.empty()) chunks_.back().end = end_of(chunks_.size() - 1);
  chunks_.push_back({{const_cast<char*>(bytes.data()), Release{0}}, 0, 0, bytes.size()});
  next_ = limit_ = chunks_.back().bytes.get() + bytes.size();
  size_ += bytes.size();
}

void OutputBuffer::append(std::string_view bytes) {
  // The bytes that fit go into the last chunk, so that a large string leaves no gap.
  const std::size_t head = std::min(bytes.size(), static_cast<std::size_t>(limit_ - next_));
  if (head > 0) {
    std::memcpy(next_, bytes.data(), head);
    commit(head);
    bytes.remove_prefix(head);
  }
  if (bytes.empty()) return;
  std::memcpy(reserve(bytes.size()), bytes.data(), bytes.size());
  commit(bytes.size());
}

void OutputBuffer::add_chunk(std::size_t n) {
  std::size_t capacity = kFirstChunkBytes;
  if (!chunks_.empty()) {
    Chunk& last = chunks_.back();
    last.end = end_of(chunks_.size() - 1);
    capacity = std::clamp(kChunkGrowth * last.capacity, kFirstChunkBytes, kChunkBytes);
    if (last.begin == last.end) chunks_.pop_back();
  }
  capacity = std::max(capacity, n);
  chunks_.push_back({allocate(capacity), capacity, 0, 0});
  next_ = chunks_.back().bytes.get();
  limit_ = next_ + capacity;
}

std::size_t OutputBuffer::end_of(std::size_t i) const {
  const Chunk& chunk = chunks_[i];
  return i + 1 == chunks_.size() ? static_cast<std::size_t>(next_ - chunk.bytes.get()) : chunk.end;
}

std::size_t OutputBuffer::gather(std::span<std::string_view> out) const {
  std::size_t count = 0;
  for (std::size_t i = 0; i < chunks_.size() && count < out.size(); ++i) {
    const Chunk& chunk = chunks_[i];
    const std::size_t length = end_of(i) - chunk.begin;
    if (length > 0) out[count++] = {chunk.bytes.get() + chunk.begin, length};
  }
  return count;
}

void OutputBuffer::consume(std::size_t n) {
  size_ -= n;
  std::size_t done = 0;
  for (; done < chunks_.size(); ++done) {
    Chunk& chunk = chunks_[done];
    const std::size_t length = std::min(n, end_of(done) - chunk.begin);
    chunk.begin += length;
    n -= length;
    const bool is_last = done + 1 == chunks_.size();
    if (is_last || chunk.begin < chunk.end) break;
  }
  chunks_.erase(chunks_.begin(), chunks_.begin() + static_cast<std::ptrdiff_t>(done));
  if (size_ > 0 || chunks_.empty()) return;
  // All bytes are written. The last chunk is used again from its start, unless one large string
  // made it larger than usual.
  Chunk& last = chunks_.back();
  if (last.capacity > kChunkBytes || last.capacity == 0) {
    clear();
    return;
  }
  last.begin = 0;
  next_ = last.bytes.get();
}

void OutputBuffer::clear() {
  chunks_.clear();
  next_ = nullptr;
  limit_ = nullptr;
  size_ = 0;
}

std::string OutputBuffer::to_string(std::size_t most) const {
  std::string text;
  most = std::min(most, size_);
  text.reserve(most);
  for (std::size_t i = 0; text.size() < most; ++i) {
    const std::size_t length = end_of(i) - chunks_[i].begin;
    text.append(chunks_[i].bytes.get() + chunks_[i].begin, std::min(length, most - text.size()));
  }
  return text;
}

std::size_t OutputBuffer::memory_bytes() const {
  std::size_t bytes = chunks_.capacity() * sizeof(Chunk);
  for (const Chunk& chunk : chunks_) bytes += chunk.capacity;
  return bytes;
}

}  // namespace locksley::proto

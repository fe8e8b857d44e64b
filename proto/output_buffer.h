// The bytes that a connection has yet to send.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace locksley::proto {

// Bytes to send: appended at the end, sent to the socket from the front. A chain of chunks, so that
// appended bytes do not move: views from gather() stay valid while more bytes are appended, until
// consume() passes them or clear() is called.
//
// Large chunks are mapped pages of the system, not of the heap, where smaller and longer-lived
// allocations would keep them from being returned. So the memory of many slow readers is returned
// when they disconnect. Each thread keeps a few free chunks for re-use.
//
// Owned by one connection, used by one thread at a time. Nothing blocks; only allocation can fail
// (std::bad_alloc). It has no limit of its own: its owner checks size() and stops producing.
class OutputBuffer {
 public:
  // For one or a few short replies, as each command of most clients has: the largest allocation
  // that glibc keeps in its per-thread cache.
  static constexpr std::size_t kFirstChunkBytes = 1024;
  static constexpr std::size_t kChunkBytes = 256 * 1024;  // guess: a few socket buffers

  OutputBuffer() = default;
  // A buffer whose append_large() copies nothing: the bytes must stay where they are for as long as
  // the buffer has them. It is for a reply that is copied to another buffer part by part.
  static OutputBuffer of_views();
  OutputBuffer(const OutputBuffer&) = delete;
  OutputBuffer& operator=(const OutputBuffer&) = delete;
  OutputBuffer(OutputBuffer&& other) noexcept;
  OutputBuffer& operator=(OutputBuffer&& other) noexcept;
  ~OutputBuffer() = default;

  // n contiguous bytes at the end, to be filled and then committed in part or whole. Valid until
  // the next call.
  char* reserve(std::size_t n) {
    if (static_cast<std::size_t>(limit_ - next_) < n) add_chunk(n);
    return next_;
  }
  void commit(std::size_t n) {
    next_ += n;
    size_ += n;
  }
  void append(std::string_view bytes);
  // The same; a buffer of_views() keeps a view of the bytes instead of a copy.
  void append_large(std::string_view bytes);
  // Takes over the bytes of `other`; without a copy if this buffer is empty, or if they are many.
  void append(OutputBuffer&& other);

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

  // Fills `out` with views of the bytes from the front on, in order; returns how many views it
  // used.
  std::size_t gather(std::span<std::string_view> out) const;

  // Removes the first n <= size() bytes, which were sent.
  void consume(std::size_t n);

  // Frees all memory if empty(), for a connection that becomes idle.
  void release() {
    if (empty()) clear();
  }

  // Removes all bytes and frees all memory.
  void clear();

  // All bytes as one string, or the first `most`; for tests and small replies.
  std::string to_string(std::size_t most = std::string::npos) const;

  std::size_t memory_bytes() const;

 private:
  struct Release {
    std::size_t capacity;  // 0: the buffer does not own the bytes
    void operator()(char* bytes) const;
  };
  using Bytes = std::unique_ptr<char[], Release>;
  static Bytes allocate(std::size_t capacity);

  struct Chunk {
    Bytes bytes;
    std::size_t capacity;
    std::size_t begin;  // first byte not yet consumed
    std::size_t end;    // end of the bytes; for the last chunk it is next_
  };
  void add_chunk(std::size_t n);
  std::size_t end_of(std::size_t i) const;

  std::vector<Chunk> chunks_;
  char* next_ = nullptr;   // in the last chunk: where the next byte goes
  char* limit_ = nullptr;  // its end
  std::size_t size_ = 0;
  bool has_views_ = false;
};

}  // namespace locksley::proto

#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace locksley::proto {

// Bytes on their way out: appended at the end, written to the socket from the front. A chain of chunks, so
// that bytes do not move once they are appended: views from gather() stay valid while more is appended, until
// consume() passes them or clear() is called.
//
// Large chunks are pages of the system's, not of the heap, which would keep them among smaller things that
// live longer: what a crowd of slow readers held is given back when they have gone. A thread keeps the last
// few for its next ones.
//
// Owned by one connection, used by one thread at a time. Nothing blocks; only allocation fails
// (std::bad_alloc). It has no limit of its own: its owner looks at size() and stops producing.
class OutputBuffer {
 public:
  static constexpr std::size_t kFirstChunkBytes =
      4 * 1024;                                           // guess: a handshake's replies and a STATUS or two
  static constexpr std::size_t kChunkBytes = 256 * 1024;  // guess: a few socket buffers

  OutputBuffer() = default;
  OutputBuffer(const OutputBuffer&) = delete;
  OutputBuffer& operator=(const OutputBuffer&) = delete;
  OutputBuffer(OutputBuffer&& other) noexcept;
  OutputBuffer& operator=(OutputBuffer&& other) noexcept;
  ~OutputBuffer() = default;

  // n bytes in one piece at the end, to be filled and then committed in part or whole. Valid until the next
  // call.
  char* reserve(std::size_t n) {
    if (static_cast<std::size_t>(limit_ - next_) < n) add_chunk(n);
    return next_;
  }
  void commit(std::size_t n) {
    next_ += n;
    size_ += n;
  }
  void append(std::string_view bytes);
  // Its bytes; without a copy if this buffer is empty.
  void append(OutputBuffer&& other);

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

  // Fills `out` with views of the bytes from the front on, in order; returns how many views it used.
  std::size_t gather(std::span<std::string_view> out) const;

  // The first n <= size() bytes are written out.
  void consume(std::size_t n);

  // Gives all memory back if empty(): for a connection that comes to rest.
  void release() {
    if (empty()) clear();
  }

  // Drops everything and all memory.
  void clear();

  // Everything as one string; for tests and small replies.
  std::string to_string() const;

  std::size_t memory_bytes() const;

 private:
  struct Release {
    std::size_t capacity;
    void operator()(char* bytes) const;
  };
  using Bytes = std::unique_ptr<char[], Release>;
  static Bytes allocate(std::size_t capacity);

  struct Chunk {
    Bytes bytes;
    std::size_t capacity;
    std::size_t begin;  // first byte not yet consumed
    std::size_t end;    // end of the bytes; of the last chunk next_ says it
  };
  void add_chunk(std::size_t n);
  std::size_t end_of(std::size_t i) const;

  std::vector<Chunk> chunks_;
  char* next_ = nullptr;   // in the last chunk: where the next byte goes
  char* limit_ = nullptr;  // its end
  std::size_t size_ = 0;
};

}  // namespace locksley::proto

// The buffers of a relay, small or large, in bounded number.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace locksley::daemon {

// Counts the large buffers of all relays, so that there are never more than kMost: they are memory
// that peers can cause, and for which no account is charged. Owned by NetworkThreads; all
// RelayBuffers end before it. Any thread. Nothing blocks.
class LargeBuffers {
 public:
  static constexpr std::uint32_t kMost = 1024;  // 64 MiB; guess: 256 connections that are busy both ways

  // False: there are kMost.
  bool try_take() {
    if (taken_.fetch_add(1) < kMost) return true;
    taken_.fetch_sub(1);
    return false;
  }
  void give_back() { taken_.fetch_sub(1); }
  std::uint32_t taken() const { return taken_.load(); }

 private:
  // Any thread writes and reads. A reader may see a buffer that is refused in the same moment.
  std::atomic<std::uint32_t> taken_{0};
};

// Bytes on their way between the I/O thread and a network thread: appended by one, and consumed
// from the front by the other, which has exchanged the whole buffer for an empty one.
//
// It holds kSmall bytes, or kLarge after grow(), and is small again once all is consumed; then it
// keeps memory for kKept bytes at most. Memory is wiped before it is given back or used again,
// since passwords are among the bytes. A part of a Relay, or of one of its two ends. One thread at
// a time. Nothing blocks. Only allocation fails.
class RelayBuffer {
 public:
  static constexpr std::size_t kKept = 1024;  // a command or its reply: a dialogue of these allocates nothing
  static constexpr std::size_t kSmall = 2 * 1024;   // guess: some commands
  static constexpr std::size_t kLarge = 64 * 1024;  // guess: some records of TLS, which stay in the cache

  explicit RelayBuffer(LargeBuffers& large) : large_(large) {}
  ~RelayBuffer() { clear(); }
  RelayBuffer(const RelayBuffer&) = delete;
  RelayBuffer& operator=(const RelayBuffer&) = delete;

  // Both are of the same LargeBuffers.
  void swap(RelayBuffer& other) noexcept {
    bytes_.swap(other.bytes_);
    std::swap(consumed_, other.consumed_);
    std::swap(is_large_, other.is_large_);
  }

  // Becomes large, unless there are too many of these: then it stays as it is.
  void grow() { is_large_ = is_large_ || large_.try_take(); }
  // How many bytes it still takes.
  std::size_t room() const { return (is_large_ ? kLarge : kSmall) - bytes_.size(); }
  // Needs: no more bytes than room().
  void append(std::string_view bytes);

  // What is yet to be consumed.
  std::string_view rest() const { return std::string_view(bytes_).substr(consumed_); }
  bool empty() const { return consumed_ == bytes_.size(); }
  void consume(std::size_t bytes) {
    consumed_ += bytes;
    if (empty()) clear();
  }
  // Forgets all, and is small.
  void clear();

  std::size_t memory_bytes() const { return bytes_.capacity(); }

 private:
  LargeBuffers& large_;
  std::string bytes_;
  std::size_t consumed_ = 0;
  bool is_large_ = false;
};

}  // namespace locksley::daemon

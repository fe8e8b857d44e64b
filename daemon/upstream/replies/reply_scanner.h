// Finds whole replies in received bytes, without building trees.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace locksley::daemon {

// Finds the end of each reply in received bytes: RESP3, incrementally. Scanned bytes are not
// scanned again when more bytes come, and nothing is allocated for the elements of a reply;
// ReplyCursor reads its values.
//
//   space = scanner.prepare();  n = read(fd, space);  scanner.commit(n);
//   while (scanner.next(reply) == Status::kWhole) use(reply);
//
// Owned by one connection, one thread. Nothing blocks. Memory: a buffer that grows to the largest
// reply, at most kMostBytes, and is freed after the next small one. After an invalid or a larger
// reply, next() returns kInvalid until clear().
class ReplyScanner {
 public:
  enum class Status : std::uint8_t { kWhole, kNeedMore, kInvalid };
  // The most bytes of one reply. A lease has at most 16 MiB of payloads, unless it is one job.
  static constexpr std::size_t kMostBytes = std::size_t{1} << 31;
  static constexpr std::size_t kLeastSpace = std::size_t{64} * 1024;

  // Space to receive into. Valid until the next call of prepare(). Views of replies end with this
  // call.
  std::span<char> prepare();
  void commit(std::size_t n) { written_ += n; }
  // The bytes of the next reply, with all its elements.
  Status next(std::string_view& reply);
  // Resets the scanner and frees its memory: for the next connection, or at the end. Invalidates
  // the space of prepare().
  void clear();

 private:
  static constexpr std::size_t kMostDepth = 8;         // Locksley's replies to a worker have at most 3 levels
  static constexpr std::size_t kMostLine = 64 * 1024;  // of an error's text; guess
  static constexpr std::size_t kIdleBytes = std::size_t{1} << 20;

  // Skips whole short strings, all but the last element of the innermost aggregate.
  void pass_short_bulks();
  // Scans one element at `at_`. kNeedMore: `wanted_` bytes must be there, if that is known.
  Status scan_element();
  Status scan_header(char type, std::int64_t number, std::size_t after);
  bool close_aggregates();

  std::unique_ptr<char[]> buffer_;
  std::size_t capacity_ = 0;
  std::size_t begin_ = 0;               // of the reply that is being scanned
  std::size_t at_ = 0;                  // scanned up to here
  std::size_t written_ = 0;             // received up to here
  std::size_t wanted_ = 0;              // the next element ends there; 0: not known
  std::vector<std::uint64_t> missing_;  // elements of each open aggregate
  bool is_invalid_ = false;
};

}  // namespace locksley::daemon

// Work that another thread does for the I/O thread: freeing large objects, dropping very many rows.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "core/batch/batch.h"
#include "daemon/base/time.h"
#include "daemon/store/read/reader.h"

namespace locksley::daemon {

// Whether freeing an object of about this many bytes would keep the I/O thread busy: ten million
// rows take 12 ms and more.
constexpr bool is_freed_aside(std::uint64_t bytes) {
  constexpr std::uint64_t kLargeBytes = 1U << 20;  // guess: some 25 us
  return bytes > kLargeBytes;
}

// Drops a reference to an object of about `bytes` bytes; on the reader's thread if
// is_freed_aside(). `user`: the owner of the object.
template <class T>
void free_aside(Reader& aside, std::shared_ptr<T> reference, std::uint64_t bytes, Reader::User user) {
  if (is_freed_aside(bytes)) aside.post([held = std::move(reference)] {}, user);
}

// Calls `step` on the reader's thread until it returns true: in tasks of about this time, so that
// the tasks of other users have their turns. Then `step` is destroyed, on the same thread.
template <class Step>
void work_aside(Reader& aside, Reader::User user, Step step,
                std::chrono::nanoseconds task = std::chrono::milliseconds(5)) {
  aside.post(
      [&aside, user, step = std::move(step), task]() mutable {
        const Instant until = now() + task;
        while (!step()) {
          if (now() >= until) return work_aside(aside, user, std::move(step), task);
        }
      },
      user);
}

// Frees the memory of the rows below `row`, which were discarded.
inline void drop_rows_aside(Reader& aside, Reader::User user, std::shared_ptr<Batch> batch, std::uint64_t row,
                            std::chrono::nanoseconds task = std::chrono::milliseconds(5)) {
  constexpr std::size_t kChunks = 512;  // guess: a fraction of a millisecond with the batch's mutex
  work_aside(
      aside, user, [batch = std::move(batch), row] { return batch->drop_rows_before(row, kChunks); }, task);
}

}  // namespace locksley::daemon

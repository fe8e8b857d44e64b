#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "daemon/store/read/reader.h"

namespace locksley::daemon {

// Drops a reference to an object of about `bytes` bytes; on the reader's thread if freeing it would
// keep the I/O thread busy: ten million rows take 12 ms and more.
template <class T>
void free_aside(Reader& aside, std::shared_ptr<T> reference, std::uint64_t bytes) {
  constexpr std::uint64_t kLargeBytes = 1U << 20;  // guess: some 25 us
  if (bytes > kLargeBytes) aside.post([held = std::move(reference)] {});
}

}  // namespace locksley::daemon

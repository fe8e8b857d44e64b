#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "daemon/store/reader.h"

namespace locksley::daemon {

// Drops a reference; on the other thread, if so many bytes may go with it that the I/O thread would be busy:
// ten million rows take 12 ms and more.
template <class T>
void free_aside(Reader& aside, std::shared_ptr<T> reference, std::uint64_t bytes) {
  constexpr std::uint64_t kLargeBytes = 4U << 20;  // guess: some 100 us
  if (bytes > kLargeBytes) aside.post([held = std::move(reference)] {});
}

}  // namespace locksley::daemon

#include "daemon/store/read/stored_range.h"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

namespace locksley::daemon {

std::size_t StoredRange::fetch(std::uint64_t first, std::span<std::string_view> out, std::string& scratch) {
  // RangePayloads computes the payloads into `scratch`, so they outlive it.
  const auto range = read();
  return range == nullptr ? 0 : range->fetch(first, out, scratch);
}

std::shared_ptr<RangePayloads> StoredRange::cached() const {
  const MutexLock lock(mutex_);
  return cached_;
}

std::shared_ptr<RangePayloads> StoredRange::read() {
  if (auto there = cached()) return there;
  const MutexLock one_reads(reading_);
  if (auto there = cached()) return there;
  std::string pattern;
  std::string_view view;
  try {
    if (pattern_row_->fetch(0, {&view, 1}, pattern) == 0) return nullptr;
  } catch (const std::runtime_error& error) {
    throw std::runtime_error(fmt::format("cannot read the pattern of the range: {}", error.what()));
  }
  auto range = std::make_shared<RangePayloads>(low_, std::move(pattern));
  const MutexLock lock(mutex_);
  cached_ = range;
  return range;
}

std::uint64_t StoredRange::memory_bytes() const {
  const auto there = cached();
  return pattern_row_->memory_bytes() + (there == nullptr ? 0 : there->memory_bytes());
}

}  // namespace locksley::daemon

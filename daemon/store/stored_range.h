#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "core/batch/payload.h"
#include "core/sync/mutex.h"
#include "daemon/store/stored_payloads.h"

namespace locksley::daemon {

class Engine;
class Reachability;

// The payloads of a range whose pattern lies in the store: the first fetch reads the pattern, and the others wait for it.
//
// Owned by its batch, or by the search for one job; the others outlive it. Any thread may fetch, several at once. A fetch blocks
// and fails as StoredPayloads' does; the other functions do not block.
class StoredRange final : public PayloadSource {
 public:
  StoredRange(Engine& engine, Reachability& reachability, std::uint64_t sequence, std::int64_t low)
      : low_(low), pattern_row_(engine, reachability, sequence) {}

  std::size_t fetch(std::uint64_t first, std::span<std::string_view> out, std::string& scratch) override
      LOCKSLEY_EXCLUDES(reading_, mutex_);
  // The pattern, once it was read.
  std::uint64_t memory_bytes() const override LOCKSLEY_EXCLUDES(mutex_);
  // The range with its pattern. Blocks and throws as fetch() does. Null: the pattern cannot be read now.
  std::shared_ptr<RangePayloads> read() LOCKSLEY_EXCLUDES(reading_, mutex_);

 private:
  std::shared_ptr<RangePayloads> cached() const LOCKSLEY_EXCLUDES(mutex_);

  const std::int64_t low_;
  StoredPayloads pattern_row_;  // its only payload is the pattern
  Mutex reading_;               // held while one thread reads the pattern
  mutable Mutex mutex_;
  std::shared_ptr<RangePayloads> cached_ LOCKSLEY_GUARDED_BY(mutex_);  // null: the pattern is not in memory
};

}  // namespace locksley::daemon

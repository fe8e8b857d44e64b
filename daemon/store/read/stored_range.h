// The payloads of a range whose pattern lies in the store.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "core/batch/payload.h"
#include "core/sync/mutex.h"

namespace locksley::daemon {

// The payloads of a range whose pattern lies in the store: the first fetch reads the pattern, and
// the others wait for it.
//
// Owned by its batch, or by the search for one job. Any thread may fetch, several at once. A fetch
// blocks and fails as that of `pattern_row` does; the other functions do not block.
class StoredRange final : public PayloadSource {
 public:
  // `pattern_row`: the only payload of the batch in the store is the pattern.
  StoredRange(std::unique_ptr<PayloadSource> pattern_row, std::int64_t low)
      : low_(low), pattern_row_(std::move(pattern_row)) {}

  std::size_t fetch(std::uint64_t first, std::span<std::string_view> out, std::string& scratch) override
      LOCKSLEY_EXCLUDES(reading_, mutex_);
  // The bytes of the pattern, once it was read, and those of its row that are in memory.
  std::uint64_t memory_bytes() const override LOCKSLEY_EXCLUDES(mutex_);
  // The range with its pattern. Blocks and throws as fetch() does. Null: the pattern cannot be read
  // now.
  std::shared_ptr<RangePayloads> read() LOCKSLEY_EXCLUDES(reading_, mutex_);

 private:
  std::shared_ptr<RangePayloads> cached() const LOCKSLEY_EXCLUDES(mutex_);

  const std::int64_t low_;
  const std::unique_ptr<PayloadSource> pattern_row_;
  Mutex reading_;  // held while one thread reads the pattern
  mutable Mutex mutex_;
  std::shared_ptr<RangePayloads> cached_ LOCKSLEY_GUARDED_BY(mutex_);  // null: the pattern is not in memory
};

}  // namespace locksley::daemon

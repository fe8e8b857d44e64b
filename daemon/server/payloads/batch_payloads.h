// The payloads of a batch and their life: the interface of all sources.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/base/check.h"
#include "core/base/index_range.h"
#include "core/batch/payload.h"
#include "daemon/server/payloads/digest.h"
#include "daemon/server/payloads/pattern.h"
#include "proto/argument_list.h"

namespace locksley::daemon {

// Opens the payloads of one batch in the store. Empty: the batch is not in the store.
using OpenStored = std::function<std::unique_ptr<PayloadSource>()>;

// Returns a range with its pattern. If it reads the pattern from the store, it may block, and
// throws as the store's reads do. Null: the pattern cannot be read now.
using OpenRange = std::function<std::shared_ptr<const RangePayloads>()>;

// A payload, whose bytes stay where they are for as long as `owner` lives.
struct HeldPayload {
  std::shared_ptr<const void> owner;
  std::string_view bytes;

  static HeldPayload of(std::string text) {
    auto owner = std::make_shared<const std::string>(std::move(text));
    const std::string_view bytes = *owner;
    return {std::move(owner), bytes};
  }
};

// The payloads of one batch of the daemon, from its acceptance until it is forgotten. Each
// implementation knows whether its payloads lie in memory, in the store or in both, and manages
// their lifetime itself; the rest of the daemon does not ask.
//
// Owned by its batch. Executors call fetch() and range(), any number at once; any thread may call
// drop_cached(). All other functions, also memory_bytes(), belong to the I/O thread, which hands
// the result of open_range() to another thread. Only a fetch() or a range() that reads the store
// blocks, and only these can fail, or have nothing now (core/batch/payload.h); the others can run
// out of memory.
class BatchPayloads : public PayloadSource {
 public:
  // Whether failed jobs may run again (RETRY) after the batch is over.
  enum class FailedJobs : std::uint8_t { kNeverRunAgain, kMayRunAgain };
  // The memory that the batch gave up. The caller may destroy `freed` on another thread: millions
  // of payloads take milliseconds.
  struct Released {
    std::shared_ptr<const void> freed;  // null: nothing large
    std::uint64_t freed_bytes = 0;
    std::uint64_t kept_bytes = 0;  // still held in memory, because failed jobs may run again
  };
  // The batch is over, and no worker fetches. Frees the memory; if failed jobs may run again,
  // payloads that are in the store are read from there from now on, and payloads in memory alone
  // stay. `repetition`: if the client chose the id, is_same() must go on working.
  enum class Repetition : std::uint8_t { kImpossible, kPossible };
  virtual Released release(FailedJobs failed_jobs, Repetition repetition) = 0;

  // The payload of a job of the batch. None if it is not in memory, or if computing it would take
  // long.
  virtual std::optional<HeldPayload> in_memory(std::uint64_t index) = 0;
  // For another thread: opens the range from which the payloads are computed. Empty: they are not
  // computed.
  virtual OpenRange open_range() const { return {}; }
  // Whether a second submission with the same id has the same jobs.
  virtual bool is_same(const proto::ArgumentList& payloads) const = 0;
  // The digest of the payloads, if it is known already: comparing digests is cheaper than comparing
  // millions of payloads.
  virtual std::optional<Digest> digest() const { return std::nullopt; }
  virtual bool is_same_range(const RangeJobs&) const { return false; }

  // ---- Streamed batches (OPEN) only ----

  // Where the payloads of an ADD are kept.
  enum class Place : std::uint8_t { kMemory, kStore };
  // Appends payloads, before the lane gets their jobs. kStore: they are in the store before a job
  // runs.
  virtual void add(const std::shared_ptr<const proto::ArgumentList>&, Place) { refuse(); }
  // Removes the last `count` payloads, of which no worker knows.
  virtual void withdraw(std::uint64_t /*count*/) { refuse(); }
  // Frees payloads while the stream goes on and no job is queued or running: all in memory except
  // those that share a block with `wanted` (ascending).
  virtual Released keep_only(std::span<const IndexRange> /*wanted*/) {
    refuse();
    return {};
  }

 private:
  static void refuse() { check(false, "a batch that was not opened as a stream is changed like one"); }
};

}  // namespace locksley::daemon

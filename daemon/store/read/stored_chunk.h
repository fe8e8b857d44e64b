// A row of payloads in memory, and its reading.
#pragma once

#include <chrono>
#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "daemon/store/engine/engine.h"
#include "daemon/store/rows/rows.h"

namespace locksley::daemon {

// A row of payloads, as it was read. Shared by the threads that copy from it; constant.
struct StoredChunk {
  std::uint64_t first = 0;
  std::string bytes;  // `payloads` are views into it
  std::optional<PayloadChunk> payloads;

  bool has(std::uint64_t index) const { return index >= first && index - first < payloads->size(); }
  // Whether the row has one payload only, which may be large, and is of no use to another job.
  bool is_of_one_job() const { return payloads->size() == 1; }
};
using SharedChunk = std::shared_ptr<const StoredChunk>;

// Reads the row that has the payload of job `index`. Any thread; blocks on the disk, or as
// EngineReading::first_row_within() says. The error is kAway also while the engine is being
// reopened.
// Throws std::runtime_error if the store lacks the payload, or if it is damaged.
std::expected<SharedChunk, EngineError> read_chunk(Engine& engine, std::uint64_t sequence,
                                                   std::uint64_t index, std::chrono::milliseconds patience,
                                                   const std::stop_token& stop = {});

// How long a reading of payloads waits for a reply: twice as long as the last reading took, since
// payloads may be large, and the link slow. After a failure: twice as long as the failed reading
// waited.
struct ChunkPatience {
  static constexpr std::chrono::milliseconds kFirst{1000};   // guesses
  static constexpr std::chrono::milliseconds kMost{20'000};  // for a thread that serves others, too

  // `most`: the longest.
  static std::chrono::milliseconds after_success(std::chrono::milliseconds took,
                                                 std::chrono::milliseconds most = kMost);
  static std::chrono::milliseconds after_failure(std::chrono::milliseconds waited,
                                                 std::chrono::milliseconds most = kMost);
};

}  // namespace locksley::daemon

#include "daemon/store/read/stored_chunk.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace locksley::daemon {

std::expected<SharedChunk, EngineError> read_chunk(Engine& engine, std::uint64_t sequence,
                                                   std::uint64_t index, std::chrono::milliseconds patience,
                                                   const std::stop_token& stop) {
  const EngineReading reading(engine);
  if (!reading.is_valid()) {
    return std::unexpected(EngineError{EngineError::Kind::kAway, "the store is not open"});
  }
  auto chunk = std::make_shared<StoredChunk>();
  auto row = reading.first_row_within({.table = Table::kPayloads,
                                       .low = part_key(sequence, 0),
                                       .high = part_key(sequence + 1, 0),
                                       .from_at_most = part_key(sequence, index)},
                                      patience, stop);
  if (!row) return std::unexpected(row.error());
  if (*row) {
    chunk->first = last_number((*row)->key);
    chunk->bytes = std::move((*row)->value);
  } else {
    // The payloads of a small batch are inside its first row.
    std::string accepted;
    const auto found = reading.get_within(Table::kIndex, row_key(kAcceptedKey, sequence), accepted, patience);
    if (!found) return std::unexpected(found.error());
    const auto split = *found ? split_row(accepted) : std::nullopt;
    if (split) chunk->bytes = split->inside;
  }
  chunk->payloads = PayloadChunk::of(chunk->bytes);
  if (chunk->payloads && chunk->has(index)) return chunk;
  throw std::runtime_error(fmt::format("the store lacks the payload of job {}, or it is damaged", index));
}

std::chrono::milliseconds ChunkPatience::after_success(std::chrono::milliseconds took,
                                                       std::chrono::milliseconds most) {
  return std::clamp(2 * took, std::min(kFirst, most), most);
}

std::chrono::milliseconds ChunkPatience::after_failure(std::chrono::milliseconds waited,
                                                       std::chrono::milliseconds most) {
  return std::min(2 * waited, most);
}

}  // namespace locksley::daemon

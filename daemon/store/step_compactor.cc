#include "daemon/store/step_compactor.h"

#include <rocksdb/write_batch.h>

#include <algorithm>
#include <string>

#include "daemon/store/codec.h"
#include "daemon/store/database.h"
#include "daemon/store/rows.h"
#include "daemon/store/step_replay.h"

namespace locksley::daemon {
namespace {

// A step takes about so many bytes in its row.
constexpr std::uint64_t kStepBytes = 32;

}  // namespace

void StepCompactor::compact_if_due(std::uint64_t sequence, std::uint64_t number, rocksdb::WriteBatch& into) {
  if (number < steps_) return;
  std::uint64_t& next = next_.try_emplace(sequence, steps_).first->second;
  if (number < next) return;
  const Database::Reading reading(database_, Database::Reading::Wait::kNot);
  if (!reading.is_valid()) return;
  next = number + steps_;
  StepReplay replay;
  std::uint64_t first = 0;
  std::uint64_t rows = 0;
  bool is_good = true;
  const auto visited = visit_prefix(reading, reading.index(), row_key(kStepKey, sequence),
                                    [&](std::string_view key, std::string_view value) {
                                      const std::uint64_t step_number =
                                          key_number(key.substr(1 + sizeof(std::uint64_t)));
                                      // After a failed write the database may have later steps, which are written again.
                                      if (step_number >= number || rows == kMostRead) return false;
                                      if (rows++ == 0) first = step_number;
                                      auto step = decode_step(value);
                                      is_good = step && replay.apply(step_number, std::move(*step));
                                      return is_good;
                                    });
  if (!visited || !is_good || rows < 2) return;
  const auto merged = replay.merged();
  if (!merged) return;
  const std::string row = encode(*merged);
  into.Put(database_.index(), step_key(sequence, merged->number), row);
  into.DeleteRange(database_.index(), step_key(sequence, first), step_key(sequence, merged->number));
  const bool has_more = rows == kMostRead;
  next = has_more ? number + 1 : number + std::max<std::uint64_t>(steps_, row.size() / kStepBytes);
}

}  // namespace locksley::daemon

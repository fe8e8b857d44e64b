#include "daemon/store/write/step_compactor.h"

#include <algorithm>
#include <string>

#include "daemon/store/rows/rows.h"
#include "daemon/store/rows/step_replay.h"

namespace locksley::daemon {
namespace {

// A step takes about so many bytes in its row.
constexpr std::uint64_t kStepBytes = 32;

}  // namespace

void StepCompactor::compact_if_due(std::uint64_t sequence, std::uint64_t number, Engine::Group& into) {
  if (number < steps_) return;
  std::uint64_t& next = next_.try_emplace(sequence, steps_).first->second;
  if (number < next) return;
  const EngineReading reading(engine_, ReadingWait::kNot);
  if (!reading.is_valid()) return;
  next = number + steps_;
  StepReplay replay;
  std::uint64_t first = 0;
  std::uint64_t rows = 0;
  std::uint64_t most = kMostRead;
  bool is_good = true;
  const auto visited = reading.visit_prefix(
      Table::kIndex, row_key(kStepKey, sequence), [&](std::string_view key, std::string_view value) {
        const std::uint64_t step_number = last_number(key);
        // After a failed write the database may have later steps, which are written again.
        if (step_number >= number || rows == most) return false;
        if (rows++ == 0) {
          first = step_number;
          // The step that stands for earlier ones is written again: as many others go with it.
          most = std::max<std::uint64_t>(kMostRead, value.size() / kStepBytes);
        }
        auto step = decode_step(value);
        is_good = step && replay.apply(step_number, std::move(*step));
        return is_good;
      });
  if (!visited || !is_good || rows < 2) return;
  const auto merged = replay.merged();
  if (!merged) return;
  const std::string row = encode(*merged);
  into.put(Table::kIndex, step_key(sequence, merged->number), row);
  // Many, as it is due: the engine need not look how many.
  into.erase_range(Table::kIndex, step_key(sequence, first), step_key(sequence, merged->number),
                   Engine::Group::Rows::kSomeOfThisGroup);
  const bool has_more = rows == most;
  next = has_more ? number + 1 : number + std::max<std::uint64_t>(steps_, row.size() / kStepBytes);
}

}  // namespace locksley::daemon

// The parts in which the backlog is written.
#include <algorithm>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <variant>

#include "daemon/store/write/write_backlog.h"

namespace locksley::daemon {

std::size_t WriteBacklog::first_part() const {
  const std::size_t most = engine_.group_bytes();
  std::size_t bytes = 0;
  std::size_t count = 0;
  for (const StoreWrite& each : kept_.all()) {
    // Neither cost_of() nor weight_of() counts all bytes of a write.
    const std::size_t more = std::max(cost_of(each), weight_of(each));
    if (count != 0 && bytes + more > most) break;
    bytes += more;
    ++count;
  }
  return count;
}

WriteBacklog::Writes WriteBacklog::ends_before_deletions(std::size_t count) const {
  const std::span<const StoreWrite> kept = kept_.all();
  std::unordered_set<std::uint64_t> deleted;
  for (const StoreWrite& each : kept.first(count)) {
    if (is_deletion(each)) deleted.insert(sequence_of(each));
  }
  Writes told;
  if (!deleted.empty()) tell_of_ends(kept.subspan(count), deleted, told);
  if (told.empty()) return told;
  // The discards of the first `count` writes are not in the store yet, but will be written before
  // the reports of ends: the reports must not undo them.
  std::unordered_map<std::uint64_t, const ChangesRow*> written;
  for (const StoreWrite& each : kept.first(count)) {
    if (const auto* const change = std::get_if<ChangeBatch>(&each))
      written[change->sequence] = &change->changes;
  }
  for (StoreWrite& each : told) {
    auto& change = std::get<ChangeBatch>(each);
    const auto before = written.find(change.sequence);
    if (before == written.end()) continue;
    change.changes.discarded_rows = before->second->discarded_rows;
    change.changes.discarded_bytes = before->second->discarded_bytes;
  }
  return told;
}

}  // namespace locksley::daemon

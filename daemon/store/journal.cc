#include "daemon/store/journal.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "daemon/store/engine/engine.h"
#include "daemon/store/rows/rows.h"
#include "daemon/store/write/writes.h"

namespace locksley::daemon {

void StoredJournal::record(BatchStep step) {
  StoreWrite write = RecordStep{sequence_, std::move(step), parts_};
  const std::size_t bytes = weight_of(write);
  const Ticket ticket = group_.put(std::move(write), Urgency::kWithNext);
  user_->add(pending_, bytes, ticket, group_.written());
}

void StoredJournal::wait_for_room() { group_.wait_for_room(user_->bytes(pending_, group_.written())); }

std::uint64_t StoredJournal::read_rows(std::uint64_t first, std::uint64_t max_rows,
                                       const std::function<bool(const ResultRow&)>& visit) {
  // A reader of results must not wait until a failed disk works again.
  const EngineReading reading(engine_);
  if (!reading.is_valid()) throw std::runtime_error("cannot read the store: the disk fails; retry later");
  const auto at = reading.scan({.table = Table::kResults,
                                .low = part_key(sequence_, 0),
                                .high = part_key(sequence_ + 1, 0),
                                .from_at_most = part_key(sequence_, first)});
  std::uint64_t consumed = 0;
  for (; consumed < max_rows && at->is_valid(); at->next()) {
    const std::uint64_t row = last_number(at->key());
    const std::uint64_t wanted = first + consumed;
    if (row > wanted) break;
    const auto visited = visit_rows(at->value(), wanted - row, max_rows - consumed, visit);
    if (!visited || row + visited->rows <= wanted) break;
    consumed += visited->consumed;
    // Stops here if there are enough results: the next row may be large, and come over a network.
    if (consumed == max_rows || row + visited->rows != first + consumed) return consumed;
  }
  if (const auto status = at->status(); !status) {
    throw std::runtime_error(fmt::format("cannot read the store: {}", status.error().what));
  }
  if (consumed == 0) {
    if (const auto inside = read_rows_inside(reading, first, max_rows, visit)) return *inside;
  }
  if (consumed < max_rows) {
    throw std::runtime_error(
        fmt::format("the store lacks result {} of a batch, or it is damaged", first + consumed));
  }
  return consumed;
}

std::optional<std::uint64_t> StoredJournal::read_rows_inside(
    const EngineReading& reading, std::uint64_t first, std::uint64_t max_rows,
    const std::function<bool(const ResultRow&)>& visit) const {
  std::string end;
  const auto found = reading.get(Table::kIndex, row_key(kEndKey, sequence_), end);
  if (!found) throw std::runtime_error(fmt::format("cannot read the store: {}", found.error().what));
  const auto split = *found ? split_row(end) : std::nullopt;
  if (!split || split->inside.empty()) return std::nullopt;
  bool goes_on = true;
  const auto visited = visit_rows(split->inside, first, max_rows, [&](const ResultRow& row) {
    goes_on = visit(row);
    return goes_on;
  });
  if (!visited || (goes_on && visited->consumed < max_rows)) return std::nullopt;
  return visited->consumed;
}

std::uint64_t StoredJournal::read_others(std::uint64_t first, std::uint64_t end, const VisitOther& visit) {
  constexpr int kMostParts = 64;  // of a few 100 KB each, or of one larger output
  const EngineReading reading(engine_);
  if (!reading.is_valid()) throw std::runtime_error("cannot read the store: the disk fails; retry later");
  if (sequence_ < first_marked_) return BatchJournal::read_others(first, end, visit);
  const auto at = reading.scan({.table = Table::kResults,
                                .low = mark_key(sequence_, 0),
                                .high = mark_key(sequence_, end),
                                .from_at_most = mark_key(sequence_, first)});
  std::string bytes;
  for (int parts = 0; at->is_valid(); at->next()) {
    const std::uint64_t begin = last_number(at->key()) & ~kMarkBit;
    if (++parts > kMostParts) return std::max(first + 1, begin);
    std::uint64_t place = std::max(first, begin);
    const auto read = reading.get(Table::kResults, part_key(sequence_, begin), bytes);
    // A client has discarded the results since.
    if (read && !*read) continue;
    bool goes_on = true;
    const auto visited = read ? visit_rows(bytes, place - begin, end - place,
                                           [&](const ResultRow& row) {
                                             goes_on = row.status == JobStatus::kOk || visit(place, row);
                                             if (goes_on) ++place;
                                             return goes_on;
                                           })
                              : std::nullopt;
    if (!visited) {
      throw std::runtime_error(fmt::format("cannot read result {} of a batch from the store: {}", begin,
                                           read ? "it is damaged" : read.error().what));
    }
    if (!goes_on) return place;
  }
  if (const auto status = at->status(); !status) {
    throw std::runtime_error(fmt::format("cannot read the store: {}", status.error().what));
  }
  return end;
}

}  // namespace locksley::daemon

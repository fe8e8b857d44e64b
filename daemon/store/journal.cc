#include "daemon/store/journal.h"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

#include "daemon/store/codec.h"
#include "daemon/store/database.h"
#include "daemon/store/rows.h"

namespace locksley::daemon {

void StoredJournal::record(BatchStep step) {
  group_.put(RecordStep{sequence_, std::move(step), parts_}, Urgency::kWithNext);
}

void StoredJournal::wait_for_room() { group_.wait_for_room(); }

std::uint64_t StoredJournal::read_rows(std::uint64_t first, std::uint64_t max_rows,
                                       const std::function<bool(const ResultRow&)>& visit) {
  // A reader of results must not wait until a failed disk works again.
  const Database::Reading reading(database_, Database::Reading::Wait::kBriefly);
  if (!reading.is_valid()) throw std::runtime_error("cannot read the store: the disk fails; retry later");
  const std::string low = part_key(sequence_, 0);
  const std::string high = part_key(sequence_ + 1, 0);
  const rocksdb::Slice lower(low);
  const rocksdb::Slice upper(high);
  rocksdb::ReadOptions options;
  options.verify_checksums = true;
  options.iterate_lower_bound = &lower;
  options.iterate_upper_bound = &upper;
  const std::unique_ptr<rocksdb::Iterator> at(reading.db().NewIterator(options, &reading.results()));
  std::uint64_t consumed = 0;
  for (at->SeekForPrev(part_key(sequence_, first)); consumed < max_rows && at->Valid(); at->Next()) {
    const std::uint64_t row = key_number(at->key().ToStringView().substr(sizeof(std::uint64_t)));
    const std::uint64_t wanted = first + consumed;
    if (row > wanted) break;
    const auto visited = visit_rows(at->value().ToStringView(), wanted - row, max_rows - consumed, visit);
    if (!visited || row + visited->rows <= wanted) break;
    consumed += visited->consumed;
    if (row + visited->rows != first + consumed) return consumed;  // enough
  }
  if (!at->status().ok()) {
    throw std::runtime_error(fmt::format("cannot read the store: {}", at->status().ToString()));
  }
  if (consumed < max_rows) {
    throw std::runtime_error(
        fmt::format("the store lacks result {} of a batch, or it is damaged", first + consumed));
  }
  return consumed;
}

}  // namespace locksley::daemon

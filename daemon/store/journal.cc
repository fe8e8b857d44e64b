#include "daemon/store/journal.h"

#include <fmt/format.h>

#include <algorithm>
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

std::uint64_t StoredJournal::read_others(std::uint64_t first, std::uint64_t end, const VisitOther& visit) {
  constexpr int kMostParts = 64;  // of a few 100 KB each, or of one larger output
  const Database::Reading reading(database_, Database::Reading::Wait::kBriefly);
  if (!reading.is_valid()) throw std::runtime_error("cannot read the store: the disk fails; retry later");
  if (sequence_ < database_.first_marked()) return BatchJournal::read_others(first, end, visit);
  const std::string low = mark_key(sequence_, 0);
  const std::string high = mark_key(sequence_, end);
  const rocksdb::Slice lower(low);
  const rocksdb::Slice upper(high);
  rocksdb::ReadOptions options;
  options.verify_checksums = true;
  rocksdb::ReadOptions bounded = options;
  bounded.iterate_lower_bound = &lower;
  bounded.iterate_upper_bound = &upper;
  const std::unique_ptr<rocksdb::Iterator> at(reading.db().NewIterator(bounded, &reading.results()));
  at->SeekForPrev(mark_key(sequence_, first));
  if (!at->Valid()) at->SeekToFirst();
  for (int parts = 0; at->Valid(); at->Next()) {
    const std::uint64_t begin =
        key_number(at->key().ToStringView().substr(sizeof(std::uint64_t))) & ~kMarkBit;
    if (++parts > kMostParts) return std::max(first + 1, begin);
    std::uint64_t place = std::max(first, begin);
    rocksdb::PinnableSlice bytes;
    const rocksdb::Status read =
        reading.db().Get(options, &reading.results(), part_key(sequence_, begin), &bytes);
    // A client has discarded it since.
    if (read.IsNotFound()) continue;
    bool goes_on = true;
    const auto visited = read.ok() ? visit_rows(bytes.ToStringView(), place - begin, end - place,
                                                [&](const ResultRow& row) {
                                                  goes_on = row.status == JobStatus::kOk || visit(place, row);
                                                  if (goes_on) ++place;
                                                  return goes_on;
                                                })
                                   : std::nullopt;
    if (!visited) {
      throw std::runtime_error(
          fmt::format("cannot read result {} of a batch from the store: {}", begin, read.ToString()));
    }
    if (!goes_on) return place;
  }
  if (!at->status().ok()) {
    throw std::runtime_error(fmt::format("cannot read the store: {}", at->status().ToString()));
  }
  return end;
}

}  // namespace locksley::daemon

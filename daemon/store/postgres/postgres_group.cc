#include "daemon/store/postgres/postgres_group.h"

#include <utility>

namespace locksley::daemon {

void PostgresGroup::set(Table table, std::string_view key, Value value) {
  OfTable& changes = tables_[static_cast<std::size_t>(table)];
  is_empty_ = false;
  bytes_ += key.size() + (value ? value->size() : 0);
  if (const auto place = place_of(table, key)) {
    changes.rows.insert_or_assign(*place, std::move(value));
  } else {
    changes.names.insert_or_assign(std::string(key), std::move(value));
  }
}

void PostgresGroup::erase_range(Table table, std::string_view low, std::string_view high, Rows) {
  OfTable& changes = tables_[static_cast<std::size_t>(table)];
  const PlaceRange range = places_in(table, low, high);
  is_empty_ = false;
  bytes_ += low.size() + high.size();
  const auto from = changes.rows.lower_bound(range.low);
  const auto to = range.high ? changes.rows.lower_bound(*range.high) : changes.rows.end();
  if (!range.high || range.low < *range.high) {
    changes.rows.erase(from, to);
    changes.ranges.push_back(range);
  }
  if (range.is_of_one_batch()) return;
  changes.names.erase(changes.names.lower_bound(low),
                      high.empty() ? changes.names.end() : changes.names.lower_bound(high));
  changes.name_ranges.push_back({std::string(low), std::string(high)});
}

void PostgresGroup::clear() {
  for (OfTable& each : tables_) each = {};
  bytes_ = 0;
  is_empty_ = true;
}

}  // namespace locksley::daemon

#include "daemon/store/postgres/row_place.h"

#include "core/base/check.h"
#include "daemon/store/engine/key.h"

namespace locksley::daemon {
namespace {

constexpr std::size_t kNumber = sizeof(std::uint64_t);
constexpr std::uint64_t kHighest = std::uint64_t{1} << 63;

// A number whose last bytes may be missing.
std::uint64_t padded_number(std::string_view bytes) {
  const std::string_view some = bytes.substr(0, kNumber);
  return some.empty() ? 0 : key_number(some) << 8 * (kNumber - some.size());
}

std::int64_t shifted(std::uint64_t number) { return static_cast<std::int64_t>(number ^ kHighest); }

}  // namespace

std::optional<RowPlace> place_of(Table table, std::string_view key) {
  RowPlace place;
  if (table == Table::kIndex) {
    if (key.size() < 1 + kNumber || key.front() == kCustomerKey) return std::nullopt;
    place.kind = static_cast<unsigned char>(key.front());
    key.remove_prefix(1);
  } else if (key.size() < kNumber) {
    return std::nullopt;
  }
  place.batch = static_cast<std::int64_t>(key_number(key.substr(0, kNumber)));
  key.remove_prefix(kNumber);
  const bool has_part = !key.empty();
  check(has_part ? key.size() == kNumber : table == Table::kIndex, "a key of no known form");
  check(place.batch >= 0 && place.batch != RowPlace::kMost, "the number of a batch does not fit into bigint");
  if (table != Table::kIndex) {
    place.part = shifted(key_number(key));
  } else {
    place.part = has_part ? static_cast<std::int64_t>(key_number(key)) : -1;
    check(place.part >= -1, "the number of a part does not fit into bigint");
  }
  return place;
}

std::string key_of(Table table, const RowPlace& place) {
  const auto batch = static_cast<std::uint64_t>(place.batch);
  if (table != Table::kIndex) {
    return std::string(Key().append(batch).append(static_cast<std::uint64_t>(place.part) ^ kHighest));
  }
  Key key = Key(static_cast<char>(place.kind)).append(batch);
  if (place.part >= 0) key.append(static_cast<std::uint64_t>(place.part));
  return std::string(key);
}

RowPlace first_from(Table table, std::string_view bound) {
  RowPlace place;
  if (bound.empty()) return place;
  if (table == Table::kIndex) {
    place.kind = static_cast<unsigned char>(bound.front());
    bound.remove_prefix(1);
  }
  const std::uint64_t batch = padded_number(bound);
  if (batch >= static_cast<std::uint64_t>(RowPlace::kMost)) {  // no batch has such a number
    place.batch = RowPlace::kMost;
    return place;
  }
  place.batch = static_cast<std::int64_t>(batch);
  if (bound.size() <= kNumber) return place;
  const std::string_view rest = bound.substr(kNumber);
  const std::uint64_t number = padded_number(rest);
  const bool is_after = rest.size() > kNumber;
  const bool fits = table != Table::kIndex || number < kHighest;
  place.part = table == Table::kIndex ? static_cast<std::int64_t>(number) : shifted(number);
  if (!fits || (is_after && place.part == RowPlace::kMost)) {
    ++place.batch;
    place.part = RowPlace::kLeast;
  } else if (is_after) {
    ++place.part;
  }
  return place;
}

bool PlaceRange::is_of_one_batch() const {
  if (!high || high->kind != low.kind || low.batch < 0) return false;
  return high->batch == low.batch || (high->batch == low.batch + 1 && high->part == RowPlace::kLeast);
}

PlaceRange places_in(Table table, std::string_view low, std::string_view high) {
  PlaceRange range{.low = first_from(table, low), .high = std::nullopt};
  if (!high.empty()) range.high = first_from(table, high);
  return range;
}

}  // namespace locksley::daemon

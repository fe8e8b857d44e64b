// Where a row lies in PostgreSQL's tables. Internal to daemon/store/postgres. Pure functions.
#pragma once

#include <compare>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/store/engine/engine.h"

namespace locksley::daemon {

// Each batch lies in one of 64 shards for its life; the low bits of its number say in which.
inline constexpr std::int64_t kShards = 64;
inline constexpr std::int32_t shard_of(std::int64_t batch) {
  return static_cast<std::int32_t>(batch & (kShards - 1));
}

// The columns of a row of a batch, in the order of its key. Values compare as the keys do.
//
// `part` of the index: -1 if the key ends with the batch. Of payloads and results: the number less
// 2^63, because a mark has the highest bit, and bigint has a sign.
struct RowPlace {
  static constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
  static constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

  unsigned char kind = 0;  // of the index; else 0
  std::int64_t batch = kLeast;
  std::int64_t part = kLeast;
  friend auto operator<=>(const RowPlace&, const RowPlace&) = default;
};

// None: the key has no batch. Such rows lie in a table of names: those that the store has once, and
// the settings of customers.
std::optional<RowPlace> place_of(Table table, std::string_view key);
std::string key_of(Table table, const RowPlace& place);
// The lowest place whose key would not be below this bound.
RowPlace first_from(Table table, std::string_view bound);

// A range of places: low <= place < high; without `high` there is no bound.
struct PlaceRange {
  RowPlace low;
  std::optional<RowPlace> high;

  bool contains(const RowPlace& place) const { return low <= place && (!high || place < *high); }
  // Whether all of it is in one batch, and of one kind.
  bool is_of_one_batch() const;
  // Needs: is_of_one_batch(). The last part that may be in it.
  std::int64_t last_part() const { return high->batch == low.batch ? high->part - 1 : RowPlace::kMost; }
};
PlaceRange places_in(Table table, std::string_view low, std::string_view high);

}  // namespace locksley::daemon

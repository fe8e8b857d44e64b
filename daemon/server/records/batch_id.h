// Ids that the daemon gives.
#pragma once

#include <cstdint>
#include <random>
#include <string>

namespace locksley::daemon {

// Ids for batches whose client chose none: 13 characters of lower-case base 32. Six are the second
// in which the id was made, so ids sort by age, and a restarted daemon does not repeat earlier ids.
// Seven are random (2^35). Ids fit into a std::string without allocation. The caller checks whether
// an id is in use already. Used by one thread at a time. Ids are not secrets.
class BatchIds {
 public:
  BatchIds() : random_(std::random_device{}()) {}
  explicit BatchIds(std::uint64_t seed) : random_(seed) {}

  // `unix_seconds`: the time now.
  std::string next(std::int64_t unix_seconds);

 private:
  std::mt19937_64 random_;
};

}  // namespace locksley::daemon

// The ids of batches that admins owned and have forgotten.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>

namespace locksley::daemon {

// Remembers the ids of the last kMost batches that admins owned and have forgotten by FORGET. If an
// admin gives an id alone, that means its own batch, or else the only batch with that id. So
// without this list, a FORGET that is repeated, because its reply was lost, would forget another
// user's batch with the same id.
//
// A member of Registry. The I/O thread only. Nothing blocks or fails. Each call takes O(kMost):
// some 0.3 us for the 1,024 numbers.
class ForgottenIds {
 public:
  static constexpr std::size_t kMost = 1024;  // guess: more than a client repeats at once

  ForgottenIds() = default;
  ForgottenIds(const ForgottenIds&) = delete;
  ForgottenIds& operator=(const ForgottenIds&) = delete;

  // `hash`: RetainedBatches::hash_of() of the admin and the id.
  void add(std::uint64_t hash) {
    if (contains(hash)) return;
    if (hashes_.size() == kMost) hashes_.pop_front();
    hashes_.push_back(hash);
  }
  // In very rare cases also true for another id with the same hash.
  bool contains(std::uint64_t hash) const { return std::ranges::find(hashes_, hash) != hashes_.end(); }

 private:
  std::deque<std::uint64_t> hashes_;  // the oldest first
};

}  // namespace locksley::daemon

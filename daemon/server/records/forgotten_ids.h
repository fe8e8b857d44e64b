// The ids of their own batches that admins have forgotten.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>

namespace locksley::daemon {

// Remembers the last kMost ids of batches of their own that admins have forgotten by FORGET. An id
// without a user means the admin's own batch, or else the only batch of that id. So without this
// memory a FORGET that is repeated, because its reply was lost, would forget the batch of another
// user with the same id.
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
  // In very rare cases true for an id with the same hash.
  bool contains(std::uint64_t hash) const { return std::ranges::find(hashes_, hash) != hashes_.end(); }

 private:
  std::deque<std::uint64_t> hashes_;  // the oldest first
};

}  // namespace locksley::daemon

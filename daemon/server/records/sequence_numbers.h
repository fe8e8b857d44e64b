// The sequence numbers of batches.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

namespace locksley::daemon {

// Gives each accepted batch its sequence number: the next higher one. LIST orders batches by it,
// and the store knows them by it. A store, if there is one, reserves numbers in advance, and
// reserves more before they are used up.
//
// A member of the Registry. The I/O thread only. O(1). Blocks and fails as `renew` does.
class SequenceNumbers {
 public:
  using Renew = std::move_only_function<std::uint64_t(std::uint64_t next)>;

  // The number of the next batch, which is taken.
  std::uint64_t take() {
    if (next_ == renew_at_) [[unlikely]]
      renew_at_ = renew_(next_);
    return next_++;
  }
  // The number that take() would return.
  std::uint64_t next() const { return next_; }
  // All numbers below `first` are taken. `renew` is called as soon as `renew_at` is next, and
  // returns when to call it again.
  void begin_at(std::uint64_t first, std::uint64_t renew_at, Renew renew) {
    next_ = first;
    renew_at_ = renew_at;
    renew_ = std::move(renew);
  }

 private:
  std::uint64_t next_ = 1;
  std::uint64_t renew_at_ = 0;  // 0: never
  Renew renew_;
};

}  // namespace locksley::daemon

// Bounds the changes by HTTP that wait for the store.
#pragma once

#include <cstddef>
#include <memory>

#include "daemon/base/loop/io_thread.h"

namespace locksley::daemon {

// A change by HTTP does not wait for room to write, as those of connections do (WriteCharges): a
// person who stops a flood of commands is not to wait for them. Instead, at most kMost changes of
// all users wait for their outcome. A connection asks for one change at a time, so there are that
// many only while the store takes minutes: after 30 s a connection gets a 503, and may ask for the
// next change.
//
// A member of Api. The I/O thread only. Nothing blocks.
class PendingChanges {
 public:
  // Guess: a few for each connection (HttpLimits).
  static constexpr std::size_t kMost = 256;

  // The place of one change, until it is destroyed. May outlive the PendingChanges.
  class Place {
   public:
    explicit Place(std::shared_ptr<std::size_t> taken) : taken_(std::move(taken)) { ++*taken_; }
    ~Place() { --*taken_; }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;

   private:
    const std::shared_ptr<std::size_t> taken_;
  };

  PendingChanges() = default;
  PendingChanges(const PendingChanges&) = delete;
  PendingChanges& operator=(const PendingChanges&) = delete;

  // Null: all places are taken. Shared, because the functions of a reply that comes later are
  // copied.
  std::shared_ptr<Place> take() { return *taken_ < kMost ? std::make_shared<Place>(taken_) : nullptr; }

 private:
  const std::shared_ptr<std::size_t> taken_ = std::make_shared<std::size_t>(0);
};

}  // namespace locksley::daemon

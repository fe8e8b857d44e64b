// Bounds the changes by HTTP that wait for the store.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "daemon/base/loop/io_thread.h"
#include "daemon/http/limits.h"

namespace locksley::daemon {

// A change by HTTP does not wait for room to write, as those of connections do (WriteCharges): a
// person who stops a flood of commands must not wait for these. Instead, at most kMostOfUser
// changes of a user wait for their outcome. There is no bound for all users together, so that none
// pays for another; the configuration bounds the number of users.
//
// A member of Api. The I/O thread only. Nothing blocks.
class PendingChanges {
 public:
  // As many as there are connections. A connection asks for one change at a time, so a user has
  // more only while the store takes long: after 30 s a connection gets a 503, and may ask for the
  // next change.
  static constexpr std::size_t kMostOfUser = HttpLimits{}.max_connections;

 private:
  using Taken = std::map<std::uint32_t, std::size_t>;  // by the number of the tenant; none is 0

 public:
  // The place of one change, until it is destroyed. May outlive the PendingChanges.
  class Place {
   public:
    Place(std::shared_ptr<Taken> taken, std::uint32_t tenant) : taken_(std::move(taken)), tenant_(tenant) {
      ++(*taken_)[tenant_];
    }
    ~Place() {
      const auto at = taken_->find(tenant_);
      if (--at->second == 0) taken_->erase(at);
    }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;

   private:
    const std::shared_ptr<Taken> taken_;
    const std::uint32_t tenant_;
  };

  PendingChanges() = default;
  PendingChanges(const PendingChanges&) = delete;
  PendingChanges& operator=(const PendingChanges&) = delete;

  // `tenant`: the number of the user's (Tenant). Null: all places of this user are taken. Shared,
  // because the functions of a reply that comes later are copied.
  std::shared_ptr<Place> take(std::uint32_t tenant) {
    const auto at = taken_->find(tenant);
    if (at != taken_->end() && at->second >= kMostOfUser) return nullptr;
    return std::make_shared<Place>(taken_, tenant);
  }

 private:
  const std::shared_ptr<Taken> taken_ = std::make_shared<Taken>();
};

}  // namespace locksley::daemon

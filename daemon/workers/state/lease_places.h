// Finds the connection that has a lease, by the names under which its worker may know the lease.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>

namespace locksley::daemon {

// The leases that are out, by the number in a name (LeaseName::number). A lease that was reclaimed
// has two names: its worker may never have got the reply with the new one.
//
// A member of OutLeases; one thread. O(1). Only allocation fails.
class LeasePlaces {
 public:
  struct Place {
    std::uint64_t connection;
    std::uint64_t number;  // of the lease
  };

  // `number`: higher than all before.
  void add(std::uint64_t number, std::uint64_t connection) {
    places_.try_emplace(number, Place{connection, number});
  }
  // The lease is also known by the name of an earlier lease. False: that name is in use.
  [[nodiscard]] bool add_former(std::uint64_t former, const Place& place) {
    return places_.try_emplace(former, place).second;
  }
  // `former`: of add_former(); 0: none.
  void remove(std::uint64_t number, std::uint64_t former) {
    places_.erase(number);
    if (former != 0) places_.erase(former);
  }
  std::optional<Place> find(std::uint64_t number) const {
    const auto found = places_.find(number);
    return found == places_.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  std::unordered_map<std::uint64_t, Place> places_;
};

}  // namespace locksley::daemon

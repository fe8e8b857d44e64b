// What a user has in use, and how much it may have.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>

namespace locksley::daemon {

// What one user may have of the daemon at once, beside the limits that hold for all together. 0: no limit of
// its own.
struct Quotas {
  std::uint64_t max_queued_jobs = 0;
  std::uint64_t max_queued_bytes = 0;
  std::uint64_t max_batches = 0;
  std::uint64_t max_clients = 0;
  bool operator==(const Quotas&) const = default;
};

// A user's side of the accounts: whom batches and connections belong to. There is one for each name that was
// ever configured, or that a batch in the store has; also when the user is configured no more.
struct Tenant {
  const std::uint32_t number;  // small, for what is kept of many batches
  const std::string name;
  Quotas quotas{};

  std::uint64_t queued_jobs = 0;     // accepted, not ended
  std::uint64_t queued_bytes = 0;    // payloads of batches that are not over, in memory or in the store
  std::uint64_t active_batches = 0;  // not over; those of RUN, too
  std::uint64_t connections = 0;
};

// All tenants. Owned by the registry of batches; the I/O thread only. None ever leaves, so references hold
// as long as this lives: their number is bounded by what operators have configured. Nothing blocks.
class Tenants {
 public:
  Tenants() = default;
  Tenants(const Tenants&) = delete;
  Tenants& operator=(const Tenants&) = delete;

  // Makes it where there is none of this name.
  Tenant& of(std::string_view name) {
    if (Tenant* known = find(name)) return *known;
    Tenant& made = all_.emplace_back(
        Tenant{.number = static_cast<std::uint32_t>(all_.size()), .name = std::string(name)});
    by_name_.emplace(made.name, &made);
    return made;
  }
  // Null if there is none of this name.
  Tenant* find(std::string_view name) const {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : found->second;
  }
  // In the order of their numbers.
  std::deque<Tenant>& all() { return all_; }

 private:
  std::deque<Tenant> all_;  // never moves what is in it
  std::unordered_map<std::string_view, Tenant*> by_name_;
};

}  // namespace locksley::daemon

// Accounts: which resources of the daemon each user, and all users together, have in use.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/result_account.h"

namespace locksley::daemon {

// The resources that users can hold: in bytes where the name says so, else a count. Each is bounded
// for each user, and most also for all users together.
enum class Resource : std::uint8_t {
  kQueuedJobs,    // accepted, not ended
  kQueuedBytes,   // payloads, and patterns of ranges, in memory
  kPayloadBytes,  // payloads of batches that are not over, in memory or in the store
  kBatches,       // not over; those of RUN, too
  kRecordBytes,   // other memory of batches: records, the batches that they wait for, the store's index
  kStoredBytes,   // of batches in the store
  kClientBytes,   // replies that wait, events to be matched, names of subscriptions, queues of MULTI
  kConnections,
  kInputBytes,      // commands that have not arrived whole
  kUnsettledBytes,  // payloads that memory has no room for, until the disk has them
  kWriteBytes,      // waits for the store's writer, as WriteCharges counts it
};
inline constexpr std::size_t kResources = 11;

// What a client can do, besides waiting, when this resource is full: the end of an error text.
// Empty: nothing.
std::string_view what_makes_room(Resource resource);

// The names of a resource outside the daemon. A test compares the table with the keys of the
// configuration.
struct ResourceName {
  Resource resource;
  std::string_view name;       // in metrics and in INFO
  std::string_view limit;      // the key below users.NAME; empty: none, the bound is fixed
  std::string_view limit_all;  // the key of the limit of all; empty: there is none
};
inline constexpr std::array<ResourceName, kResources> kResourceNames{{
    {Resource::kQueuedJobs, "queued_jobs", "max_queued_jobs", "limits.max_queued_jobs"},
    {Resource::kQueuedBytes, "queued_bytes", "max_queued_bytes", "limits.max_queued_bytes"},
    {Resource::kPayloadBytes, "payload_bytes", "max_queued_bytes", ""},
    {Resource::kBatches, "batches", "max_batches", ""},
    {Resource::kRecordBytes, "record_bytes", "max_record_bytes", "limits.max_record_bytes"},
    {Resource::kStoredBytes, "stored_bytes", "max_stored_bytes", "store.max_bytes"},
    {Resource::kClientBytes, "client_bytes", "client_memory", "limits.client_memory"},
    {Resource::kConnections, "connections", "max_clients", "limits.max_clients"},
    {Resource::kInputBytes, "input_bytes", "max_queued_bytes", "limits.max_queued_bytes"},
    {Resource::kUnsettledBytes, "unsettled_bytes", "max_queued_bytes", "limits.max_queued_bytes"},
    {Resource::kWriteBytes, "write_bytes", "", ""},
}};
// Core counts the results in memory (ResultAccount), since workers charge them. Their names, as in
// ResourceName.
inline constexpr std::string_view kResultName = "result_bytes";
inline constexpr std::string_view kResultLimit = "max_result_bytes";
// The data in memory about failed jobs. Core counts it, too; it may take half of kResultLimit in
// addition to the results.
inline constexpr std::string_view kFailureName = "failure_bytes";

// An account: counters, each with a limit. Accounts form a tree; what is charged to one is charged
// to its parent as well. The root is the account of all users together.
//
// The component that lets a client occupy a resource charges it before the resource is taken, and
// one place refunds it. A batch's record (BatchRecord::Charged) holds its charges, a session those
// of its connection. An account refuses nothing by itself: Admission asks it, and says which limit
// a command exceeds.
//
// Owned by Tenants (the root), by a Tenant or by a Customer; outlives its children. A customer has
// an account only while it is used. The I/O thread only, but for results() and failures().
// Nothing blocks or fails.
class Account {
 public:
  static constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

  // `prefix`: of the keys of its limits, such as "users.alice."; of the root: empty.
  explicit Account(Account* parent = nullptr, std::string prefix = {})
      : parent_(parent),
        prefix_(std::move(prefix)),
        results_(parent == nullptr ? nullptr : &parent->results_),
        failures_(parent == nullptr ? nullptr : &parent->failures_) {
    limits_.fill(kNoLimit);
  }
  Account(const Account&) = delete;
  Account& operator=(const Account&) = delete;

  void charge(Resource resource, std::uint64_t amount) {
    for (Account* account = this; account != nullptr; account = account->parent_)
      account->at(resource) += amount;
  }
  // Needs: this much is charged.
  void refund(Resource resource, std::uint64_t amount) {
    for (Account* account = this; account != nullptr; account = account->parent_)
      account->at(resource) -= amount;
  }

  std::uint64_t used(Resource resource) const { return used_[static_cast<std::size_t>(resource)]; }
  // kNoLimit: none.
  std::uint64_t limit(Resource resource) const { return limits_[static_cast<std::size_t>(resource)]; }
  bool has_limit(Resource resource) const { return limit(resource) != kNoLimit; }
  // kFixed: the limit alone counts. kLeavesRoom: within its limit, the account may hold no more
  // than its parent has free. So a new account can always take half of what is free, however many
  // others are at their limit. In the end each of n accounts at their limits has 1/(n + 1) of the
  // total. (Dynamic thresholds with factor 1: Choudhury and Hahne, "Dynamic queue length thresholds
  // for shared-memory packet switches", 1998.)
  enum class Kind : std::uint8_t { kFixed, kLeavesRoom };
  void set_limit(Resource resource, std::uint64_t limit, Kind kind = Kind::kFixed) {
    limits_[static_cast<std::size_t>(resource)] = limit;
    kinds_[static_cast<std::size_t>(resource)] = kind;
  }

  // Whether this much more is within this account's own limit.
  bool has_room(Resource resource, std::uint64_t more) const {
    const std::uint64_t most = most_now(resource);
    return more <= most && used(resource) <= most - more;
  }
  bool leaves_room(Resource resource) const {
    return kinds_[static_cast<std::size_t>(resource)] == Kind::kLeavesRoom;
  }
  // The limit; with kLeavesRoom, at most the free amount of the parent. Takes no account of batches
  // that could be evicted: Retention does.
  std::uint64_t most_now(Resource resource) const {
    return leaves_room(resource) ? std::min(limit(resource), parent_->free(resource)) : limit(resource);
  }
  // What it may hold while the other accounts of its parent hold nothing; kNoLimit: unlimited.
  std::uint64_t most_alone(Resource resource) const {
    if (!leaves_room(resource) || !parent_->has_limit(resource)) return limit(resource);
    return std::min(limit(resource), parent_->limit(resource) / 2);
  }
  bool exceeds_limit(Resource resource) const { return used(resource) > limit(resource); }
  // The first account, from this one upwards, whose limit this much more would exceed; null: none.
  const Account* first_without_room(Resource resource, std::uint64_t more) const {
    for (const Account* account = this; account != nullptr; account = account->parent_) {
      if (!account->has_room(resource, more)) return account;
    }
    return nullptr;
  }

  // The key of the limit, for messages: "users.alice.max_batches", "limits.max_queued_jobs".
  std::string key(Resource resource) const;
  std::string key_of_results() const {
    return (parent_ == nullptr ? "limits." : prefix_) + std::string(kResultLimit);
  }

  Account* parent() const { return parent_; }
  ResultAccount& results() { return results_; }
  const ResultAccount& results() const { return results_; }
  // The data in memory about failed jobs. Its limit is half of that of results.
  ResultAccount& failures() { return failures_; }
  const ResultAccount& failures() const { return failures_; }
  // Sets the limit of results, and with it that of failures.
  void set_result_limit(std::uint64_t bytes, std::uint64_t spare = 0) {
    results_.set_limit(bytes, spare);
    failures_.set_limit(bytes == kNoLimit ? kNoLimit : bytes / 2, spare / 2);
  }

 private:
  std::uint64_t free(Resource resource) const {
    return exceeds_limit(resource) ? 0 : limit(resource) - used(resource);
  }
  std::uint64_t& at(Resource resource) { return used_[static_cast<std::size_t>(resource)]; }

  Account* const parent_;
  const std::string prefix_;
  std::array<std::uint64_t, kResources> used_{};
  std::array<std::uint64_t, kResources> limits_;
  std::array<Kind, kResources> kinds_{};
  ResultAccount results_;
  ResultAccount failures_;
};

// The beginning of a refusal: which resource is full, and how much of it is in use. `limit`: the
// limit's name for the client. `most`: how much may be in use now: less than the account's limit if
// other accounts leave less.
std::string queue_full_text(std::string_view limit, std::uint64_t most, const Account& full,
                            Resource resource);
// Why no job of the account's batches can start: names the account whose limit of results is
// reached. Needs: there is one.
std::string results_at_limit(const Account& account);
// The same for the data about failed jobs: why no more jobs of the account are accepted.
std::string failures_at_limit(const Account& account);

}  // namespace locksley::daemon

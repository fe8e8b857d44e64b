// How commands change the settings of customers.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>

#include "config/config.h"
#include "daemon/base/loop/io_thread.h"
#include "daemon/server/accounts/tenants.h"
#include "daemon/store/engine/engine.h"
#include "daemon/store/write/ticket.h"
#include "proto/customer_settings.h"

namespace locksley::daemon {

class AwaitedDeletions;
class Registry;
class Retention;
class Store;
class WriteCharges;

// The settings of customers, as clients change them: in the table of customers, which the accounts
// use, and in the store. A change takes effect at once, also for queued jobs; its reply waits for
// the ticket. A change that the disk refuses still takes effect, and is written later; while the
// disk refuses writes, no further customer gets settings. The caller informs the lanes
// (ServerState::tell_lanes()).
//
// The number of customers of a user that have settings is bounded (limits.max_customers), and the
// memory of the settings is charged to the user as records are.
//
// Owned by Batches. The I/O thread only. Nothing blocks, but for restore(). A refusal is the text
// of the error reply.
class CustomerChanges {
 public:
  using Refusal = std::string;

  // `store` may be null: then settings are in memory alone.
  CustomerChanges(const config::Config& config, Registry& registry, Retention& retention,
                  WriteCharges& charges, AwaitedDeletions& deletions, Store* store)
      : config_(config),
        registry_(registry),
        retention_(retention),
        charges_(charges),
        deletions_(deletions),
        store_(store) {}
  CustomerChanges(const CustomerChanges&) = delete;
  CustomerChanges& operator=(const CustomerChanges&) = delete;

  // Settings that `changes` lacks stay as they are. `payer`, here and below: the account that is
  // charged for the write (WriteCharges), that of the user who sent the command. Returns the ticket
  // of the write; 0: there is none.
  std::expected<Ticket, Refusal> set(Tenant& user, std::string_view customer, Account& payer,
                                     const proto::CustomerSettings& changes) LOCKSLEY_REQUIRES(kIoThread);
  // Removes all settings of a customer: the defaults hold for it again.
  struct Removed {
    bool had_settings;
    Ticket ticket;
  };
  // Refused only if there is nothing to remove while the disk cannot be written: an earlier removal
  // may still wait for the disk.
  std::expected<Removed, Refusal> remove(Tenant& user, std::string_view customer, Account& payer)
      LOCKSLEY_REQUIRES(kIoThread);
  // Restores the settings that the store has, before its batches are restored. The error is for the
  // operator.
  std::expected<void, StoreRefusal> restore() LOCKSLEY_REQUIRES(kIoThread);

 private:
  // Why nothing can be written; empty: it can.
  std::string store_error() const;
  // Why one more customer of the user may not have settings; empty: it may.
  Refusal refusal_of_one_more(Tenant& user, std::string_view customer) const LOCKSLEY_REQUIRES(kIoThread);
  Ticket write(const Tenant& user, std::string_view customer, Account& payer,
               const proto::CustomerSettings& settings) LOCKSLEY_REQUIRES(kIoThread);

  const config::Config& config_;
  Registry& registry_;
  Retention& retention_;
  WriteCharges& charges_;
  AwaitedDeletions& deletions_;
  Store* const store_;
};

}  // namespace locksley::daemon

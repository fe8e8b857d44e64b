#include "daemon/server/batches/changes/customer_changes.h"

#include <fmt/format.h>

#include "daemon/server/accounts/customers.h"
#include "daemon/server/batches/retention/retention.h"
#include "daemon/server/batches/stored/awaited_deletions.h"
#include "daemon/server/batches/stored/write_charges.h"
#include "daemon/server/records/registry.h"
#include "daemon/store/store.h"

namespace locksley::daemon {

std::expected<Ticket, CustomerChanges::Refusal> CustomerChanges::set(Tenant& user, std::string_view customer,
                                                                     Account& payer,
                                                                     const proto::CustomerSettings& changes) {
  Customers& customers = registry_.customers();
  const Customer* const known = customers.find(user, customer);
  proto::CustomerSettings settings = known == nullptr ? proto::CustomerSettings{} : known->settings;
  if (settings.is_empty() && !changes.is_empty()) {
    if (Refusal refusal = refusal_of_one_more(user, customer); !refusal.empty()) {
      return std::unexpected(std::move(refusal));
    }
  }
  settings.merge(changes);
  if (settings.is_empty()) return 0;
  customers.set(user, customer, settings);
  retention_.evict(&user);  // refusal_of_one_more() counts batches that can go as room
  return write(user, customer, payer, settings);
}

std::expected<CustomerChanges::Removed, CustomerChanges::Refusal> CustomerChanges::remove(
    Tenant& user, std::string_view customer, Account& payer) {
  Customers& customers = registry_.customers();
  const Customer* const known = customers.find(user, customer);
  if (known == nullptr || known->settings.is_empty()) {
    // An earlier CUSTOMER DEL may still wait for the disk; a success would claim that it is done.
    if (const std::string error = store_error(); !error.empty())
      return std::unexpected(
          fmt::format("STORE the disk cannot be written: the customer has no settings now, and may have them "
                      "again after a crash; retry later ({})",
                      error));
    return Removed{false, deletions_.last()};
  }
  const std::string name(customer);  // it may be the customer's own
  customers.set(user, name, {});
  const Ticket ticket = write(user, name, payer, {});
  deletions_.put(ticket);
  return Removed{true, ticket};
}

std::string CustomerChanges::store_error() const { return store_ == nullptr ? "" : store_->error(); }

CustomerChanges::Refusal CustomerChanges::refusal_of_one_more(Tenant& user, std::string_view customer) const {
  // While nothing can be written, customers that are set and deleted stay in memory by their names.
  if (const std::string error = store_error(); !error.empty()) {
    return fmt::format(
        "STORE the disk cannot be written, so no more customers get settings: nothing was set; "
        "retry later ({})",
        error);
  }
  const std::uint64_t most = config_.limits.max_customers;
  if (user.customers_with_settings >= most) {
    return fmt::format(
        "QUEUEFULL limits.max_customers is {}, and the user {} has settings for so many customers: "
        "nothing was set; CUSTOMER DEL deletes those of one customer",
        most, user.name);
  }
  const Account* const full =
      retention_.first_without_room(user, Resource::kRecordBytes, Customers::record_bytes(customer));
  if (full == nullptr) return {};
  const std::uint64_t most_now = retention_.most_now(*full, Resource::kRecordBytes);
  return fmt::format(
      "{}: nothing was set, try again{}",
      queue_full_text(full->key(Resource::kRecordBytes), most_now, *full, Resource::kRecordBytes),
      what_makes_room(Resource::kRecordBytes));
}

Ticket CustomerChanges::write(const Tenant& user, std::string_view customer, Account& payer,
                              const proto::CustomerSettings& settings) {
  if (store_ == nullptr) return 0;
  const Ticket ticket =
      store_->put(SetCustomer{{user.name, std::string(customer), settings}}, Urgency::kAwaited);
  charges_.charge(payer, ticket, kCostOfWrite);
  return ticket;
}

std::expected<void, StoreRefusal> CustomerChanges::restore() {
  return store_->read_customers([this](const CustomerRow& row) {
    kIoThread.assert_held();
    registry_.customers().set(registry_.tenants().of(row.user), row.customer, row.settings);
  });
}

}  // namespace locksley::daemon

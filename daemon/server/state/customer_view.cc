#include "daemon/server/state/customer_view.h"

#include <algorithm>
#include <chrono>

#include "core/lane/lane_view.h"
#include "daemon/base/loop/processor_time.h"
#include "daemon/server/accounts/customer_name.h"
#include "daemon/server/state/server_state.h"
#include "proto/glob.h"

namespace locksley::daemon {

namespace {

// The bounds of a page, as those of a page of LIST.
constexpr auto kPageTime = std::chrono::microseconds(300);
constexpr std::size_t kMostLooked = 10'000;

CustomerSeen seen(const ServerState& state, const Tenant& tenant, std::string_view name,
                  const Customer* customer) LOCKSLEY_REQUIRES(kIoThread) {
  CustomerSeen result{.tenant = tenant.name, .customer = std::string(name), .terms = tenant.customer_terms};
  if (customer != nullptr) {
    result.terms = customer->terms();
    result.is_set = !customer->settings.is_empty();
    if (customer->account != nullptr) {
      result.batches = customer->account->used(Resource::kBatches);
      result.jobs = customer->account->used(Resource::kQueuedJobs);
    }
  }
  for (const Lane* lane : state.lanes()) {
    const auto view = lane->view().customer(tenant.name, name);
    if (!view) continue;
    result.queued += view->queued;
    result.running += view->executors;
    result.share = std::max(result.share, view->share);
    result.received = std::max(result.received, view->received);
  }
  return result;
}

}  // namespace

std::expected<CustomerSeen, std::string> customer_seen(const ServerState& state, const User& by,
                                                       std::string_view customer) {
  const Registry& registry = state.batches().registry();
  const auto named = customer_named(registry.tenants(), by, customer);
  if (!named) return std::unexpected(named.error());
  return seen(state, *named->tenant, named->name, registry.customers().find(*named->tenant, named->name));
}

const Tenant* customers_of(const User& by) {
  return by.is_admin() && !by.is_everybody() ? nullptr : &by.tenant();
}

CustomerPage customers_seen(const ServerState& state, const CustomerDemand& demand) {
  const auto until = processor_time() + kPageTime;
  const auto matches = [names_users = demand.tenant == nullptr](std::string_view glob,
                                                                const Customer& customer) {
    return proto::glob_match(glob, names_users ? customer.tenant->name + '/' + customer.name : customer.name);
  };
  std::size_t looked = 0;
  CustomerPage page;
  page.next = state.batches().registry().customers().list(
      demand.tenant, demand.cursor, kMostLooked, [&](const Customer& customer) {
        kIoThread.assert_held();
        if (page.customers.size() == demand.count) return false;
        if (++looked % 8 == 0 && processor_time() > until) return false;
        if (demand.match && !matches(*demand.match, customer)) return true;
        page.customers.push_back(seen(state, *customer.tenant, customer.name, &customer));
        return true;
      });
  return page;
}

}  // namespace locksley::daemon

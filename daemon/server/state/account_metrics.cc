#include "daemon/server/state/account_metrics.h"

#include <array>
#include <string>
#include <utility>

namespace locksley::daemon {

namespace {

// Calls visit(name, used, limit) for each resource.
template <class Visit>
void for_each_resource(const Account& account, const Visit& visit) {
  for (const ResourceName& each : kResourceNames)
    visit(std::string(each.name), account.used(each.resource), account.limit(each.resource));
  visit(std::string(kFailureName), account.failures().bytes(), account.failures().limit());
  visit(std::string(kResultName), account.results().bytes(), account.results().limit());
}

}  // namespace

void read_account_metrics(const Tenants& tenants, const std::set<std::string>& labelled, Families& families) {
  Family used = Family::gauge("locksley_account_used", "What all users together hold of a resource.");
  Family limit = Family::gauge("locksley_account_limit", "How much they may hold; absent without a limit.");
  for_each_resource(tenants.account_of_all(),
                    [&](const std::string& name, std::uint64_t now, std::uint64_t limit_of) {
                      used.add({{"resource", name}}, now);
                      if (limit_of != Account::kNoLimit) limit.add({{"resource", name}}, limit_of);
                    });
  Family tenant_used = Family::gauge("locksley_tenant_account_used", "What the tenant holds of a resource.");
  Family tenant_limit =
      Family::gauge("locksley_tenant_account_limit", "How much the tenant may hold; absent without a limit.");
  std::array<std::uint64_t, kResources + 2> other{};
  for (const Tenant& tenant : tenants.all()) {
    std::size_t place = 0;
    for_each_resource(tenant.account,
                      [&](const std::string& name, std::uint64_t now, std::uint64_t limit_of) {
                        if (!labelled.contains(tenant.name)) {
                          other[place++] += now;
                          return;
                        }
                        tenant_used.add({{"tenant", tenant.name}, {"resource", name}}, now);
                        if (limit_of != Account::kNoLimit)
                          tenant_limit.add({{"tenant", tenant.name}, {"resource", name}}, limit_of);
                      });
  }
  std::size_t place = 0;
  for_each_resource(tenants.account_of_all(), [&](const std::string& name, std::uint64_t, std::uint64_t) {
    tenant_used.add({{"tenant", "other"}, {"resource", name}}, other[place++]);
  });
  for (Family* family : {&used, &limit, &tenant_used, &tenant_limit}) std::move(*family).move_to(families);
}

}  // namespace locksley::daemon

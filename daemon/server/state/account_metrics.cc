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

class AccountReading {
 public:
  AccountReading(const Tenants& tenants, const std::set<std::string>& labelled)
      : tenants_(tenants), labelled_(labelled) {}

  bool go_on(Families& families, Instant until) {
    constexpr std::size_t kAtOnce = 8;  // between two looks at the clock
    for (; next_ < tenants_.all().size(); ++next_) {
      if (next_ % kAtOnce == 0 && now() >= until) return false;
      add(tenants_.all()[next_]);
    }
    add_all();
    for (Family* family : {&used_, &limit_, &tenant_used_, &tenant_limit_})
      std::move(*family).move_to(families);
    return true;
  }

 private:
  void add(const Tenant& tenant) {
    const bool is_labelled = labelled_.contains(tenant.name);
    std::size_t place = 0;
    for_each_resource(tenant.account, [&](const std::string& name, std::uint64_t now, std::uint64_t limit) {
      if (!is_labelled) {
        other_[place++] += now;
        return;
      }
      tenant_used_.add({{"tenant", tenant.name}, {"resource", name}}, now);
      if (limit != Account::kNoLimit) tenant_limit_.add({{"tenant", tenant.name}, {"resource", name}}, limit);
    });
  }
  void add_all() {
    std::size_t place = 0;
    for_each_resource(tenants_.account_of_all(),
                      [&](const std::string& name, std::uint64_t now, std::uint64_t limit) {
                        used_.add({{"resource", name}}, now);
                        if (limit != Account::kNoLimit) limit_.add({{"resource", name}}, limit);
                        tenant_used_.add({{"tenant", "other"}, {"resource", name}}, other_[place++]);
                      });
  }

  const Tenants& tenants_;
  const std::set<std::string>& labelled_;
  std::size_t next_ = 0;  // tenant
  std::array<std::uint64_t, kResources + 2> other_{};
  Family used_ = Family::gauge("locksley_account_used", "What all users together hold of a resource.");
  Family limit_ = Family::gauge("locksley_account_limit", "How much they may hold; absent without a limit.");
  Family tenant_used_ = Family::gauge("locksley_tenant_account_used", "What the tenant holds of a resource.");
  Family tenant_limit_ =
      Family::gauge("locksley_tenant_account_limit", "How much the tenant may hold; absent without a limit.");
};

}  // namespace

MetricsPage::Reading read_account_metrics(const Tenants& tenants, const std::set<std::string>& labelled) {
  return [reading = AccountReading(tenants, labelled)](Families& families, Instant until) mutable {
    return reading.go_on(families, until);
  };
}

}  // namespace locksley::daemon

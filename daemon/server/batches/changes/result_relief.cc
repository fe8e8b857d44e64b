#include "daemon/server/batches/changes/result_relief.h"

#include <algorithm>
#include <utility>

#include "daemon/base/loop/io_mailbox.h"
#include "daemon/server/accounts/account.h"
#include "daemon/server/accounts/tenants.h"
#include "daemon/server/batches/changes/batch_changes.h"
#include "daemon/server/batches/retention/retention.h"
#include "daemon/server/records/batch_record.h"
#include "daemon/server/records/registry.h"
#include "daemon/store/store.h"

namespace locksley::daemon {

ResultRelief::ResultRelief(Parts parts) : parts_(parts), evicting_(parts_.slices) {
  parts_.registry.tenants().account_of_all().results().on_change([this, &mailbox = IoMailbox::of(parts_.io)] {
    // Called by any thread. One post that waits is enough.
    if (is_posted_.exchange(true)) return;
    mailbox.post([this] {
      kIoThread.assert_held();
      relieve();
    });
  });
}

ResultRelief::~ResultRelief() { parts_.registry.tenants().account_of_all().results().on_change({}); }

void ResultRelief::relieve() {
  is_posted_ = false;
  if (std::exchange(is_relieving_, true)) {
    // An eviction that has not begun will see the change; one that has begun is repeated.
    must_repeat_ = evicting_.is_under_way();
    return;
  }
  const bool is_full = std::ranges::any_of(parts_.registry.tenants().all(), [](const Tenant& tenant) {
    return tenant.account.results().is_full();
  });
  if (parts_.store == nullptr || !is_full) return evict();
  parts_.store->free_results([this, &mailbox = IoMailbox::of(parts_.io)] {
    mailbox.post([this] {
      kIoThread.assert_held();
      evict();
    });
  });
}

void ResultRelief::evict() {
  if (evict_until(now() + Slices::kSlice)) return;
  evicting_.start([this](Instant until) {
    kIoThread.assert_held();
    if (!evict_until(until)) return false;
    if (std::exchange(must_repeat_, false)) relieve();
    return true;
  });
}

bool ResultRelief::evict_until(Instant until) {
  constexpr std::size_t kFewRuns = 16;  // some 30 us
  if (!runs_left_) {
    if (!parts_.retention.evict_results(until)) return false;
    runs_left_ = parts_.registry.runs().size();
  }
  const auto cancel_if_full = [this](BatchRecord& record) {
    kIoThread.assert_held();
    Account& account = parts_.registry.tenant_of(record).account;
    if (record.is_over() || record.is_stopping() || !account.results().is_full()) return;
    record.refusal = results_at_limit(account);
    parts_.changes.cancel(record, account, record.refusal);
  };
  while (!parts_.registry.runs().visit(*runs_left_, kFewRuns, cancel_if_full)) {
    if (now() >= until) return false;
  }
  runs_left_.reset();
  is_relieving_ = false;
  if (on_room_) on_room_();
  return true;
}

}  // namespace locksley::daemon

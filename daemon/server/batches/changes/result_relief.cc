#include "daemon/server/batches/changes/result_relief.h"

#include <spdlog/logger.h>

#include <algorithm>
#include <utility>

#include "daemon/base/log/log_line.h"
#include "daemon/base/loop/io_mailbox.h"
#include "daemon/server/accounts/account.h"
#include "daemon/server/accounts/tenants.h"
#include "daemon/server/batches/changes/batch_changes.h"
#include "daemon/server/batches/retention/retention.h"
#include "daemon/server/records/batch_record.h"
#include "daemon/server/records/registry.h"
#include "daemon/store/store.h"

namespace locksley::daemon {

ResultRelief::ResultRelief(Parts parts)
    : parts_(std::move(parts)),
      evicting_(parts_.slices),
      timer_(parts_.io),
      soon_(parts_.io),
      readers_(parts_.io) {
  const auto later = [this, &mailbox = IoMailbox::of(parts_.io)] { relieve_later(mailbox); };
  Account& all = parts_.registry.tenants().account_of_all();
  all.results().on_change(later);
  all.failures().on_change(later);
}

ResultRelief::~ResultRelief() {
  Account& all = parts_.registry.tenants().account_of_all();
  all.results().on_change({});
  all.failures().on_change({});
}

void ResultRelief::relieve_soon() {
  if (std::exchange(is_soon_, true)) return;
  soon_.expires_after(kSoon);
  soon_.async_wait([this](const asio::error_code& error) {
    kIoThread.assert_held();
    if (error) return;
    is_soon_ = false;
    relieve();
  });
}

void ResultRelief::wait_for_readers() {
  const Instant next = parts_.retention.next_return();
  if (next == kNever) return;
  // Very many batches may return one after the other.
  const Instant at = std::max(next, now() + kSoon);
  if (at >= readers_at_) return;
  readers_at_ = at;
  readers_.expires_at(at);
  readers_.async_wait([this](const asio::error_code& error) {
    kIoThread.assert_held();
    if (error) return;
    readers_at_ = kNever;
    relieve();
  });
}

void ResultRelief::relieve_later(IoMailbox& mailbox) {
  // One pending post is enough.
  if (is_posted_.exchange(true)) return;
  mailbox.post([this] {
    kIoThread.assert_held();
    relieve();
  });
}

void ResultRelief::relieve() {
  is_posted_ = false;
  if (std::exchange(is_relieving_, true)) {
    // An eviction that has not begun will see the change; a running one is repeated.
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
  warn_of_full();
  if (parts_.retention.take_awaits_write()) relieve_soon();
  const auto is_full = [](const Tenant& tenant) {
    return tenant.account.results().is_full() || tenant.account.failures().is_full();
  };
  if (std::ranges::any_of(parts_.registry.tenants().all(), is_full)) wait_for_readers();
  return true;
}

void ResultRelief::warn_of_full() {
  for (const Tenant& tenant : parts_.registry.tenants().all()) {
    const Account& account = tenant.account;
    if (account.results().is_full())
      standing_.try_emplace(&tenant, Standing{account.results().bytes(), now()});
    if (!account.failures().is_full() || !failure_lines_.open(now())) continue;
    LogLine("the data about failed jobs is at its limit: batches with many failed jobs do not retry them")
        .with("tenant", tenant.name)
        .with("bytes", account.failures().bytes())
        .with("limit", account.key_of_results())
        .with("unlogged", failure_lines_.held_back())
        .write(*parts_.log, spdlog::level::warn);
  }
  look_later();
}

void ResultRelief::look_later() {
  if (standing_.empty() || std::exchange(is_timed_, true)) return;
  timer_.expires_after(kStands);
  timer_.async_wait([this](const asio::error_code& error) {
    kIoThread.assert_held();
    if (!error) warn_of_standing();
  });
}

void ResultRelief::warn_of_standing() {
  is_timed_ = false;
  for (auto& [tenant, standing] : std::exchange(standing_, {})) {
    const ResultAccount& results = tenant->account.results();
    if (!results.is_full()) continue;
    if (const std::uint64_t bytes = results.bytes(); bytes != standing.bytes) {
      standing_.emplace(tenant, Standing{bytes, now()});
    } else if (now() - standing.since < kStands) {
      standing_.emplace(tenant, standing);
    } else if (result_lines_.open(now())) {
      LogLine("results in memory are at their limit, and nothing can be freed: no job of the user starts")
          .with("tenant", tenant->name)
          .with("bytes", standing.bytes)
          .with("limit", tenant->account.key_of_results())
          .with("unlogged", result_lines_.held_back())
          .write(*parts_.log, spdlog::level::warn);
    }
  }
  look_later();
}

}  // namespace locksley::daemon

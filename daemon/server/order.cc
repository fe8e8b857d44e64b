// When a batch starts: at once, after a while, or when others are over.
#include <fmt/format.h>
#include <spdlog/logger.h>

#include <algorithm>
#include <utility>

#include "daemon/server/batch_replies.h"
#include "daemon/server/batches.h"

namespace locksley::daemon {

namespace {

bool is_all_ok(const BatchStatus& status) {
  return status.state == BatchState::done && status.ok == status.jobs;
}

std::string reason_not_ok(std::string_view id) {
  return fmt::format("not every job of the batch '{}' was ok", id);
}

}  // namespace

std::expected<Batches::Order, Batches::Refusal> Batches::order_of(const User& by,
                                                                  const proto::BatchOptions& options) {
  Order order{.delay = options.delay, .waits = {}, .broken = {}};
  for (const proto::AfterBatch& after : options.after) {
    const auto found = find(by, after.id);
    if (!found) return std::unexpected(found.error());
    const BatchRecord* const other = *found;
    if (other == nullptr) return std::unexpected(no_such_batch(after.id));
    if (other->is_over()) {
      if (!after.only_if_ok || is_all_ok(other->status())) continue;
      order.broken = reason_not_ok(after.id);
    }
    order.waits.all.push_back({other->sequence, after.id, after.only_if_ok});
  }
  std::ranges::sort(order.waits.all, {}, &Wait::sequence);
  order.waits.open = order.waits.all.size();
  order.waits.were_any = !order.waits.all.empty();
  return order;
}

void Batches::hold(BatchRecord& record, Order order, Instant start_at) {
  if (order.delay) {
    record.set_hold(Hold::delay);
    registry_.schedule(record, Due::kStart, start_at);
  }
  record.waits = std::move(order.waits);
  if (record.waits.open == 0) return;
  record.set_hold(Hold::batches);
  // What is broken is about to be cancelled.
  if (!order.broken.empty()) return;
  for (const Wait& wait : record.waits.all) {
    if (!wait.is_satisfied) dependents_.add(wait.sequence, record.sequence);
  }
}

Batches::Order Batches::restored_order(const AcceptedRow& row, const BatchHistory& history,
                                       const ChangesRow& changes) {
  Order order;
  order.waits.were_any = !row.after.empty();
  if (row.start_at > unix_milliseconds()) order.delay = std::chrono::milliseconds(0);
  if (changes.is_released || history.cancelled) return order;
  for (std::size_t i = 0; i < row.after.size(); ++i) {
    const AcceptedRow::After& after = row.after[i];
    Wait wait{after.sequence, after.id, after.only_if_ok, changes.is_satisfied(i)};
    if (!wait.is_satisfied) {
      // One that cannot be read is as one that is not there.
      const BatchRecord* const other = registry_.find(after.sequence).value_or(nullptr);
      if (other == nullptr) {
        // One in the store is forgotten only after this one was told of its end, so it was in memory alone.
        if (after.only_if_ok)
          order.broken = fmt::format("the batch '{}' went with the daemon's memory", after.id);
        wait.is_satisfied = !after.only_if_ok;
      } else if (other->is_over()) {
        if (after.only_if_ok && !is_all_ok(other->status())) order.broken = reason_not_ok(after.id);
        wait.is_satisfied = !after.only_if_ok || is_all_ok(other->status());
      }
    }
    if (!wait.is_satisfied) ++order.waits.open;
    order.waits.all.push_back(std::move(wait));
  }
  return order;
}

void Batches::release_dependents(BatchRecord& record, const BatchStatus& status) {
  for (const Wait& wait : record.waits.all) {
    if (!wait.is_satisfied) dependents_.remove(wait.sequence, record.sequence);
  }
  record.waits.all = {};
  record.waits.open = 0;
  // No recursion: what ends by this is heard of later, like every end.
  for (const std::uint64_t sequence : dependents_.take(record.sequence)) {
    BatchRecord& dependent = *registry_.by_sequence(sequence);
    if (dependent.is_over()) continue;
    auto& waits = dependent.waits;
    const auto wait = std::ranges::lower_bound(waits.all, record.sequence, {}, &Wait::sequence);
    if (wait->only_if_ok && !is_all_ok(status)) {
      cancel(dependent, reason_not_ok(record.id()));
      continue;
    }
    wait->is_satisfied = true;
    if (--waits.open == 0) dependent.lane->release(dependent, Hold::batches);
    write_changes(dependent);
  }
}

}  // namespace locksley::daemon

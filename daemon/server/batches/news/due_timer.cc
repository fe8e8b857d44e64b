#include "daemon/server/batches/news/due_timer.h"

#include <algorithm>
#include <utility>

namespace locksley::daemon {

DueTimer::DueTimer(asio::io_context& io, Slices& slices, Registry& registry, Actions actions)
    : registry_(registry), actions_(std::move(actions)), timer_(io), taking_(slices) {}

void DueTimer::arm() {
  if (taking_.is_under_way()) return;
  const Instant next = next_due();
  if (next == armed_for_) return;
  armed_for_ = next;
  if (next == kNever) {
    timer_.cancel();
    return;
  }
  if (next <= now()) return take_soon();
  timer_.expires_at(next);
  timer_.async_wait([this](const asio::error_code& error) {
    kIoThread.assert_held();
    if (!error) take_soon();
  });
}

void DueTimer::take_soon() {
  taking_.start([this](Instant until) {
    kIoThread.assert_held();
    return take_due(until);
  });
}

Instant DueTimer::next_due() {
  return std::min(registry_.due().earliest(), registry_.retained().earliest_forget_bound());
}

void DueTimer::take(BatchRecord& record, Due due) {
  registry_.schedule(record, due, kNever);
  actions_.act(record, due);
}

bool DueTimer::take_due(Instant until) {
  for (Instant at = now(); at < until; at = now()) {
    // Alternately, so that neither kind delays the other.
    if (const RetainedBatch* const going = registry_.retained().due_at(at)) actions_.forget(going->sequence);
    if (const auto item = registry_.due().next_due(at))
      take(*registry_.by_sequence(item->sequence), item->kind);
    if (next_due() <= at) continue;
    taking_.cancel();  // so that arm() may begin anew
    armed_for_ = kNever;
    arm();
    return true;
  }
  return false;
}

}  // namespace locksley::daemon

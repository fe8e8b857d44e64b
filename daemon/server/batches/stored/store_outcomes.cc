#include "daemon/server/batches/stored/store_outcomes.h"

#include "daemon/base/loop/io_mailbox.h"
#include "daemon/server/batches/retention/retention.h"
#include "daemon/server/batches/stored/awaited_deletions.h"
#include "daemon/server/batches/stored/stored_batches.h"
#include "daemon/server/batches/stored/write_charges.h"

namespace locksley::daemon {

StoreOutcomes::StoreOutcomes(Parts parts)
    : parts_(std::move(parts)), mailbox_(IoMailbox::of(parts_.io)), settling_(parts_.slices) {}

void StoreOutcomes::add(Outcome outcome) {
  parts_.stored.expect(outcome);
  const bool settles = outcome.error.empty() && !outcome.is_of_kept_ones;
  if (settles && on_written_) on_written_(outcome.up_to);
  mailbox_.post([this, outcome = std::move(outcome)]() mutable {
    kIoThread.assert_held();
    settle(std::move(outcome));
  });
}

void StoreOutcomes::settle(Outcome outcome) {
  Pending pending{.outcome = std::move(outcome)};
  if (pending_.empty() && settle_some(pending, now() + Slices::kSlice)) return;
  pending_.push_back(std::move(pending));
  settling_.start([this](Instant until) {
    kIoThread.assert_held();
    return settle_until(until);
  });
}

bool StoreOutcomes::settle_until(Instant until) {
  while (!pending_.empty()) {
    if (settle_some(pending_.front(), until)) pending_.pop_front();
    if (now() >= until) return pending_.empty();
  }
  return true;
}

bool StoreOutcomes::settle_some(Pending& pending, Instant until) {
  if (!pending.is_known_to_batches) {
    pending.is_known_to_batches = parts_.stored.settle_some(pending.outcome, until);
    if (!pending.is_known_to_batches) return false;
    parts_.charges.refund(pending.outcome.up_to);
    parts_.deletions.settled(pending.outcome);
    // Batches that could not leave memory before this outcome may leave now.
    parts_.retention.retire(parts_.stored.settled());
  }
  if (on_stored_ && !on_stored_(pending.outcome, until)) return false;
  parts_.after_outcome();
  return true;
}

}  // namespace locksley::daemon

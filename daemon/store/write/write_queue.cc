#include "daemon/store/write/write_queue.h"

#include <variant>

namespace locksley::daemon {

Ticket WriteQueue::put(StoreWrite&& write, Urgency urgency) {
  const std::size_t cost = cost_of(write);
  // A marker comes after all steps that were put before.
  if (std::holds_alternative<std::monostate>(write) && staged_.last_step() > gathering_ticket_) {
    return staged_.add_marker();
  }
  if (staged_.takes(write, cost)) tell_ahead(write);
  // takes() is asked again: tell_ahead() may have filled the group, so that the write no longer
  // follows a staged one.
  if (!staged_.takes(write, cost)) return gather(std::move(write), cost, urgency);
  // The first part must not come before writes of the same batch that gather.
  const Ticket first = gathering_.empty() ? gathering_ticket_ : gathering_ticket_ + 1;
  return staged_.add(std::move(write), cost, urgency, first);
}

void WriteQueue::tell_ahead(const StoreWrite& write) {
  const auto* const change = std::get_if<ChangeBatch>(&write);
  if (change == nullptr || !tells_of_ends(change->changes) || is_discard(write)) return;
  auto told = staged_.tell_ahead(*change);
  if (!told) return;
  const std::size_t cost = cost_of(*told);
  gather(*std::move(told), cost, Urgency::kWithNext);
}

Ticket WriteQueue::gather(StoreWrite&& write, std::size_t cost, Urgency urgency) {
  const bool fills_group = cost >= most_in_group_ && (std::holds_alternative<AcceptBatch>(write) ||
                                                      std::holds_alternative<AddJobs>(write));
  if (fills_group && !gathering_.empty()) close_group();
  const Ticket ticket = gathering_ticket_;
  if (urgency == Urgency::kAwaited) ++awaited_;
  gathering_.add(std::move(write));
  if (gathering_.cost() >= most_in_group_) close_group();
  return ticket;
}

void WriteQueue::close_group() {
  full_.push_back({.ticket = gathering_ticket_,
                   .writes = gathering_.take(std::exchange(spare_, {})),
                   .awaited = std::exchange(awaited_, 0),
                   .part = std::nullopt});
  begin_next();
}

void WriteQueue::begin_next() {
  while (staged_.has_group(++gathering_ticket_)) {
    full_.push_back({.ticket = gathering_ticket_, .writes = {}, .awaited = 0, .part = std::nullopt});
  }
  staged_.begin_group(gathering_ticket_);
}

std::optional<WriteQueue::Group> WriteQueue::take_first(Writes spare) {
  if (spare.capacity() > spare_.capacity()) spare_.swap(spare);
  if (empty()) return std::nullopt;
  Group first;
  if (!full_.empty()) {
    first = std::move(full_.front());
    full_.pop_front();
  } else {
    first.ticket = gathering_ticket_;
    first.writes = gathering_.take(std::exchange(spare_, {}));
    first.awaited = std::exchange(awaited_, 0);
    begin_next();
  }
  if (!staged_.empty()) {
    first.awaited += staged_.take(first.ticket, first.writes);
    first.part = staged_.part_for(first.ticket);
  }
  return first;
}

}  // namespace locksley::daemon

#include "daemon/worker_port/awaited_tickets.h"

namespace locksley::daemon {

void AwaitedTickets::after_link(WorkerLink& link) {
  if (link.awaits_store()) {
    const Ticket last = link.last_ticket();
    if (settles_.empty() || settles_.back().first < last) settles_.emplace_back(last, boot_time());
    // [link-awaits-store] seq_cst: as in awaits_store().
    awaits_store_.store(true);
    if (store_->is_written(last)) note_written(link);
  }
  if (!link.awaits_store()) awaits_store_.store(false);
}

void AwaitedTickets::note_written(WorkerLink& link) {
  const Ticket ticket = store_->written();
  const Nanoseconds now = boot_time();
  for (; !settles_.empty() && settles_.front().first <= ticket; settles_.pop_front())
    settle_time_.observe(now - settles_.front().second);
  link.written(ticket);
}

}  // namespace locksley::daemon

#include "daemon/server/batches/write_charges.h"

namespace locksley::daemon {

void WriteCharges::charge(Account& account, Ticket ticket, std::uint64_t cost) {
  if (ticket == 0) return;
  account.charge(Resource::kWriteBytes, cost);
  if (!charges_.empty() && charges_.back().ticket == ticket && charges_.back().account == &account) {
    charges_.back().cost += cost;
  } else {
    charges_.push_back({.ticket = ticket, .account = &account, .cost = cost});
  }
}

void WriteCharges::refund(Ticket up_to) {
  while (!charges_.empty() && charges_.front().ticket <= up_to) {
    charges_.front().account->refund(Resource::kWriteBytes, charges_.front().cost);
    charges_.pop_front();
  }
}

}  // namespace locksley::daemon

#include "daemon/server/batches/stored/write_charges.h"

#include <algorithm>
#include <iterator>

namespace locksley::daemon {

void WriteCharges::charge(Account& account, Ticket ticket, std::uint64_t cost) {
  if (ticket == 0) return;
  account.charge(Resource::kWriteBytes, cost);
  // Large writes have tickets of later groups.
  const auto behind = std::ranges::upper_bound(charges_, ticket, {}, &Charge::ticket);
  if (behind != charges_.begin()) {
    Charge& before = *std::prev(behind);
    if (before.ticket == ticket && before.account == &account) {
      before.cost += cost;
      return;
    }
  }
  charges_.insert(behind, {.ticket = ticket, .account = &account, .cost = cost});
}

void WriteCharges::refund(Ticket up_to) {
  while (!charges_.empty() && charges_.front().ticket <= up_to) {
    charges_.front().account->refund(Resource::kWriteBytes, charges_.front().cost);
    charges_.pop_front();
  }
}

}  // namespace locksley::daemon

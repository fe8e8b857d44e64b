#include "daemon/server/session/waiter_place.h"

namespace locksley::daemon {

WaiterPlace::WaiterPlace(Wakeup& wakeup, OwnedCounter& blocked, BatchRecord& record, std::uint64_t row)
    : record_(record),
      blocked_(blocked),
      waiter_{.wakeup = wakeup, .is_woken = false, .place = record.waiters.all.size()} {
  record_.waiters.all.push_back({&waiter_, row});
  blocked_.set(blocked_.get() + 1);
}

WaiterPlace::~WaiterPlace() {
  record_.waiters.all[waiter_.place] = record_.waiters.all.back();
  record_.waiters.all[waiter_.place].who->place = waiter_.place;
  record_.waiters.all.pop_back();
  blocked_.set(blocked_.get() - 1);
}

}  // namespace locksley::daemon

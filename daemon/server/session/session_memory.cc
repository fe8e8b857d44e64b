#include "daemon/server/session/session_memory.h"

#include "daemon/server/session/sessions.h"

namespace locksley::daemon {

SessionMemory::SessionMemory(Sessions& sessions, const ConnectionLife& life, const SessionOutput& output,
                             const Subscriptions& subscriptions, const Transaction& transaction)
    : sessions_(sessions),
      life_(life),
      output_(output),
      subscriptions_(subscriptions),
      transaction_(transaction),
      part_(sessions.memory()) {}

void SessionMemory::update(std::size_t more) {
  if (life_.is_dropped()) return;
  const std::uint64_t memory = output_.memory_bytes() + subscriptions_.memory_bytes() +
                               transaction_.memory_bytes() + read_bytes_ + more;
  if (memory == part_.output()) return;
  part_.set_output(memory);
  sessions_.enforce_memory_limit(part_.account());
}

void SessionMemory::count_read(std::size_t bytes) {
  read_bytes_ = bytes;
  update();
}

const Account& SessionMemory::all() const { return sessions_.memory().all(); }

}  // namespace locksley::daemon

// What becomes of a handler's batches when the configuration changes it.
#include <functional>
#include <memory>

#include "core/check.h"
#include "daemon/server/batches.h"

namespace locksley::daemon {

void Batches::for_each_of(const std::string& handler, const std::function<void(BatchRecord&)>& visit) {
  registry_.change_active([&](BatchRecord& record) {
    if (record.handler().name() == handler && !record.is_over()) visit(record);
  });
}

void Batches::hold_handler(const std::string& name) {
  handlers_.set_held(name, true);
  for_each_of(name, [](BatchRecord& record) { record.lane->hold(record, Hold::handler); });
  look_whether_idle();
}

void Batches::release_handler(const std::string& name) {
  handlers_.set_held(name, false);
  for_each_of(name, [](BatchRecord& record) {
    if (has(record.status().holds, Hold::handler)) record.lane->release(record, Hold::handler);
  });
}

bool Batches::has_running(const std::string& name) {
  bool found = false;
  for_each_of(name, [&](BatchRecord& record) {
    found = found || record.lane->ring().has_claims(record.ring_queue());
  });
  return found;
}

void Batches::move_handler(const std::string& name, Lane& to) {
  for_each_of(name, [&](BatchRecord& record) {
    if (record.lane == &to) return;
    const auto shared = std::static_pointer_cast<BatchRecord>(record.shared_from_this());
    check(record.lane->hand_over(shared, to), "a batch changes its lane while jobs of it run");
    record.lane = &to;
  });
}

void Batches::follow_handler(BatchRecord& record) {
  const HandlerDirectory::Entry& entry = handlers_.for_batch(record.handler().name());
  // It is in no ring.
  record.lane = &entry.lane;
  if (entry.is_held) {
    record.set_hold(Hold::handler);
  } else {
    record.clear_hold(Hold::handler);
  }
}

}  // namespace locksley::daemon

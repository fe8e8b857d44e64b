#include "daemon/server/batches/handler_batches.h"

#include "core/base/check.h"

namespace locksley::daemon {

void HandlerBatches::for_each(const std::string& handler, const std::function<void(BatchRecord&)>& visit) {
  registry_.change_active([&](BatchRecord& record) {
    if (record.handler().name() == handler && !record.is_over()) visit(record);
  });
}

void HandlerBatches::hold(const std::string& handler) {
  handlers_.set_held(handler, true);
  for_each(handler, [](BatchRecord& record) {
    kIoThread.assert_held();
    record.lane->hold(record, Hold::kHandler);
  });
}

void HandlerBatches::release(const std::string& handler) {
  handlers_.set_held(handler, false);
  for_each(handler, [](BatchRecord& record) {
    kIoThread.assert_held();
    if (has(record.status().holds, Hold::kHandler)) record.lane->release(record, Hold::kHandler);
  });
}

bool HandlerBatches::has_running(const std::string& handler) {
  bool found = false;
  for_each(handler, [&](BatchRecord& record) {
    kIoThread.assert_held();
    found = found || record.lane->has_claims(record);
  });
  return found;
}

void HandlerBatches::move(const std::string& handler, Lane& to, GateId gate) {
  for_each(handler, [&](BatchRecord& record) {
    kIoThread.assert_held();
    if (record.lane == &to && record.gate() == gate) return;
    check(record.lane->hand_over(record.shared(), to, gate), "a batch changes its lane while jobs of it run");
    record.lane = &to;
    record.wake_log_readers();  // they watch the jobs of the lane that it leaves
  });
}

void HandlerBatches::follow_handler(BatchRecord& record) {
  const HandlerDirectory::Entry& entry = handlers_.for_batch(record.handler().name());
  record.lane = &entry.lane;
  record.set_gate(entry.gate);
  if (entry.is_held) {
    record.set_hold(Hold::kHandler);
  } else {
    record.clear_hold(Hold::kHandler);
  }
}

}  // namespace locksley::daemon

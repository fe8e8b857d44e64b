#include "daemon/server/batches/handlers/handler_batches.h"

#include "core/base/check.h"
#include "core/lane/lane_view.h"

namespace locksley::daemon {

void HandlerBatches::hold(const std::string& handler) {
  handlers_.set_held(handler, true);
  follow(handler);
}

void HandlerBatches::release(const std::string& handler) {
  handlers_.set_held(handler, false);
  follow(handler);
}

void HandlerBatches::follow(const std::string& handler) {
  Walk& walk = walks_.try_emplace(handler, slices_).first->second;
  walk.at = {};
  walk.is_done = false;
  walk.running = {};
  if (go_on(handler)) return;
  walk.going_on.start([this, handler](Instant until) {
    kIoThread.assert_held();
    do {
      if (go_on(handler)) return true;
    } while (now() < until);
    return false;
  });
}

bool HandlerBatches::go_on(const std::string& handler) {
  const auto found = walks_.find(handler);
  if (found == walks_.end() || found->second.is_done) return true;
  Walk& walk = found->second;
  const HandlerDirectory::Entry& entry = handlers_.for_batch(handler);
  walk.is_done = registry_.visit_active(walk.at, kAtOnce, [&](BatchRecord& record) {
    kIoThread.assert_held();
    if (&record.handler() == &entry.handler && !record.is_over()) change(record, entry, walk);
  });
  if (!walk.is_done) return false;
  if (walk.running.empty()) walks_.erase(found);
  followed_();
  return true;
}

void HandlerBatches::change(BatchRecord& record, const HandlerDirectory::Entry& entry, Walk& walk) {
  if (entry.is_held) record.lane->hold(record, Hold::kHandler);
  if (record.lane != &entry.lane || record.served_as().gate != entry.gate) {
    check(record.lane->hand_over(record.shared(), entry.lane, entry.gate),
          "a batch changes its lane while jobs of it run");
    record.lane = &entry.lane;
    record.wake_log_readers(slices_);  // they watch the jobs of the lane that it leaves
  }
  if (!entry.is_held) {
    if (has(record.status().holds, Hold::kHandler)) record.lane->release(record, Hold::kHandler);
  } else if (record.lane->view().has_claims(record)) {
    walk.running.push_back(record.shared());
  }
}

bool HandlerBatches::has_running(const std::string& handler) {
  const auto found = walks_.find(handler);
  if (found == walks_.end()) return false;
  if (!found->second.is_done) return true;
  std::erase_if(found->second.running, [](const std::shared_ptr<BatchRecord>& record) {
    kIoThread.assert_held();
    return record->is_over() || !record->lane->view().has_claims(*record);
  });
  if (!found->second.running.empty()) return true;
  walks_.erase(found);
  return false;
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

#pragma once

#include <functional>
#include <string>

#include "core/lane/lane.h"
#include "daemon/base/io_thread.h"
#include "daemon/server/batches/handler_directory.h"
#include "daemon/server/records/registry.h"

namespace locksley::daemon {

// What a change of the configuration does to the batches of one handler that are not over, those of RUN
// included.
//
// Owned by Batches. The I/O thread only. O(active batches). Nothing blocks or fails.
class HandlerBatches {
 public:
  HandlerBatches(Registry& registry, HandlerDirectory& handlers) : registry_(registry), handlers_(handlers) {}
  HandlerBatches(const HandlerBatches&) = delete;
  HandlerBatches& operator=(const HandlerBatches&) = delete;

  // hold(): no job of these batches starts any more, nor of later batches of the handler.
  // release(): jobs may start again.
  void hold(const std::string& handler) LOCKSLEY_REQUIRES(kIoThread);
  void release(const std::string& handler) LOCKSLEY_REQUIRES(kIoThread);
  // Whether an executor has jobs of one of them. While they are held, false stays false.
  bool has_running(const std::string& handler) LOCKSLEY_REQUIRES(kIoThread);
  // Moves them to a gate of lane `to`. Needs: not has_running().
  void move(const std::string& handler, Lane& to, GateId gate) LOCKSLEY_REQUIRES(kIoThread);
  // Gives a batch that was over and goes on the lane, the gate and the hold of its handler as it is
  // now. Called before the batch is in any ring.
  void follow_handler(BatchRecord& record) LOCKSLEY_REQUIRES(kIoThread);

 private:
  void for_each(const std::string& handler, const std::function<void(BatchRecord&)>& visit)
      LOCKSLEY_REQUIRES(kIoThread);

  Registry& registry_;
  HandlerDirectory& handlers_;
};

}  // namespace locksley::daemon

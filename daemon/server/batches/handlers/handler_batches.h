// How batches follow a change of their handler.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "daemon/base/loop/io_thread.h"
#include "daemon/base/loop/sliced_work.h"
#include "daemon/base/loop/slices.h"
#include "daemon/server/batches/handlers/handler_directory.h"
#include "daemon/server/records/registry.h"

namespace locksley::daemon {

// Applies a change of a handler's configuration to the batches of the handler that are not over,
// those of RUN included. Each gets the lane, the gate and the hold that the handler's entry in the
// directory has. New batches have them from the beginning.
//
// A call visits kAtOnce active batches at once, and the others in slices. If the entry changes
// meanwhile, the visits begin anew. A batch gets the values that the entry has at the moment of its
// visit.
//
// Owned by Batches. The I/O thread only. Nothing blocks or fails.
class HandlerBatches {
 public:
  // `followed` is called after all batches of a handler have the values of its entry, within the
  // call or later.
  HandlerBatches(Registry& registry, HandlerDirectory& handlers, Slices& slices,
                 std::function<void()> followed)
      : registry_(registry), handlers_(handlers), slices_(slices), followed_(std::move(followed)) {}
  HandlerBatches(const HandlerBatches&) = delete;
  HandlerBatches& operator=(const HandlerBatches&) = delete;

  // From now on no job of these batches starts, nor of later batches of the handler.
  void hold(const std::string& handler) LOCKSLEY_REQUIRES(kIoThread);
  // Jobs may start again, in the lane and at the gate that the directory has now. If the lane or
  // the gate has changed, the caller must have called hold(), and has_running() must have returned
  // false since.
  void release(const std::string& handler) LOCKSLEY_REQUIRES(kIoThread);
  // Needs: hold(). Whether some of the batches are not held yet, or an executor has jobs of one of
  // them. Once it has returned false, it returns false until release(). O(batches of which an
  // executor had jobs when they were held).
  bool has_running(const std::string& handler) LOCKSLEY_REQUIRES(kIoThread);
  // Gives a batch that was over and goes on the lane, the gate and the hold of its handler as it is
  // now. Called before the batch is in any ring.
  void follow_handler(BatchRecord& record) LOCKSLEY_REQUIRES(kIoThread);

  // Active batches, of all handlers, between two looks at the clock: at most some 20 us. A guess.
  static constexpr std::size_t kAtOnce = 64;

 private:
  // A walk through the active batches, for one handler.
  struct Walk {
    explicit Walk(Slices& slices) : going_on(slices) {}
    Registry::ActivePlace at = {};
    bool is_done = false;
    // Batches that were held while an executor had jobs of them.
    std::vector<std::shared_ptr<BatchRecord>> running = {};
    SlicedWork going_on;  // go_on(), unless it is done
  };
  void follow(const std::string& handler) LOCKSLEY_REQUIRES(kIoThread);
  // Looks at kAtOnce batches. True if none is left.
  bool go_on(const std::string& handler) LOCKSLEY_REQUIRES(kIoThread);
  void change(BatchRecord& record, const HandlerDirectory::Entry& entry, Walk& walk)
      LOCKSLEY_REQUIRES(kIoThread);

  Registry& registry_;
  HandlerDirectory& handlers_;
  Slices& slices_;
  const std::function<void()> followed_;
  // By handler. A finished walk stays while it has running batches.
  std::map<std::string, Walk> walks_ LOCKSLEY_GUARDED_BY(kIoThread);
};

}  // namespace locksley::daemon

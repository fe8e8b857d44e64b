// Handlers that come, change and go while the daemon serves.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "daemon/handler_set.h"
#include "daemon/server/io.h"

namespace spdlog {
class logger;
}

namespace locksley::daemon {

class SchedulerMetrics;
class Server;

// Puts changes of handlers in force, and tells all who have to do with handlers. Jobs that run end as they
// began. Most changes are made at once. Those that need a standstill of the handler (HandlerSet) wait for it:
// meanwhile its batches are held, those that come in too, so that it comes.
//
// Owned by main(); all parts outlive it. The I/O thread only; nothing blocks but a plugin's teardown.
class LiveHandlers {
 public:
  struct Parts {
    asio::io_context& io;
    HandlerSet& handlers;
    Server& server;
    SchedulerMetrics& metrics;
    std::shared_ptr<spdlog::logger> log;
  };

  // Tells `metrics` of the lanes that there are.
  explicit LiveHandlers(const Parts& parts);

  // Those of HandlerSet::load().
  void apply(HandlerChanges changes);
  // No handler waits for its standstill.
  bool is_settled() const { return waiting_.empty(); }

 private:
  void begin(const std::string& name, HandlerChanges::Change change);
  // Its standstill has come, or is not needed.
  void finish(const std::string& name, HandlerChanges::Change change);
  void look();
  void tell(const std::string& name);

  const Parts parts_;
  std::map<std::string, HandlerChanges::Change> waiting_;  // for a standstill
  Timer timer_;
};

}  // namespace locksley::daemon

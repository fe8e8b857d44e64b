// Handlers that are added, changed and removed while the daemon serves.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "daemon/base/loop/io.h"
#include "daemon/base/loop/io_thread.h"
#include "daemon/handler_set.h"
#include "daemon/upstream/handler_use.h"

namespace spdlog {
class logger;
}

namespace locksley::daemon {

class Server;

// Puts changes of handlers in force, in the directory, the batches and the lanes. Running jobs end
// as they began. Most changes are made at once. A change that needs a standstill of its handler
// (HandlerSet) waits for it: meanwhile the handler's batches are held, new ones, too, so that its
// jobs run out.
//
// A member of ServingParts (parts.h); all parts outlive it. The I/O thread only. Nothing blocks but
// a plugin's teardown. Nothing fails: what can fail was prepared before.
class LiveHandlers {
 public:
  struct Parts {
    asio::io_context& io;
    HandlerSet& handlers;
    Server& server;
    HandlerUse& use;  // by jobs of another daemon
    std::shared_ptr<spdlog::logger> log;
  };

  explicit LiveHandlers(const Parts& parts);

  // Called after a handler has come, changed or gone.
  void on_change(std::function<void()> changed) { changed_ = std::move(changed); }
  // `changes` have been through HandlerSet::load().
  void apply(HandlerChanges changes) LOCKSLEY_REQUIRES(kIoThread);
  // No handler waits for its standstill.
  bool is_settled() const { return waiting_.empty(); }

 private:
  void begin(const std::string& name, HandlerChanges::Change change) LOCKSLEY_REQUIRES(kIoThread);
  // The handler is at a standstill, or needs none.
  void finish(const std::string& name, HandlerChanges::Change change) LOCKSLEY_REQUIRES(kIoThread);
  // Makes the changes whose handlers have come to a standstill.
  void finish_waiting() LOCKSLEY_REQUIRES(kIoThread);
  // Adds lanes that are new to the server.
  void publish_lanes() LOCKSLEY_REQUIRES(kIoThread);
  // Adds a handler that is configured to the counters.
  void publish(const std::string& name) LOCKSLEY_REQUIRES(kIoThread);

  const Parts parts_;
  std::function<void()> changed_ = [] {};
  std::map<std::string, HandlerChanges::Change> waiting_;  // for a standstill, by handler
  Timer timer_;
};

}  // namespace locksley::daemon

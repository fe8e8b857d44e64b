// The functions of the daemon that the link to remote workers needs.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/batch/batch.h"
#include "core/lane/lane.h"

namespace locksley::daemon {

// Where the jobs of a handler wait: a gate of a lane (core/ring/state/ring_gate.h).
struct HandlerPlace {
  Lane* lane = nullptr;  // null: none
  GateId gate = 0;
};

// The interface of the link (daemon/workers/worker_link.h) to the rest of the daemon; a test
// implements it, too. Outlives the link. Called on the link's thread. No call may wait for the
// link, nor call it.
class WorkerHost {
 public:
  virtual ~WorkerHost() = default;

  // Whether the user may use the commands of workers; whether it may run the handler's jobs.
  virtual bool may_work(std::string_view user) = 0;
  virtual bool may_serve(std::string_view user, std::string_view handler) = 0;
  // Where the handler's jobs wait; no lane: there is no such handler, or it is not for remote
  // workers. The lane outlives the link. No two handlers have the same place. After a change, call
  // WorkerLink::handlers_changed().
  virtual HandlerPlace place_of(std::string_view handler) = 0;
  // The names of all handlers for remote workers that the user may run.
  virtual std::vector<std::string> handlers_for(std::string_view user) = 0;
  // The places of all handlers for remote workers, for the hold after a recovery.
  virtual std::vector<HandlerPlace> places() = 0;

  // The store's number of a batch, which is never used again; and the batch of a number, null if
  // there is none with jobs.
  virtual std::uint64_t number_of(const Batch& batch) = 0;
  virtual std::shared_ptr<Batch> batch_of(std::uint64_t number) = 0;

  // Whether the store takes more results now. While it does not, the link hands out nothing.
  virtual bool has_room() = 0;
  // The number of the last result that was recorded. The link holds back the reply of a SETTLE
  // until WorkerLink::written() is called with that number or a higher one. 0: results are not
  // written.
  virtual std::uint64_t last_write() = 0;

  // The error reply to each JOIN, while no worker can join this daemon: another daemon has the
  // batches, or this one still reads them from the store. None: workers can join.
  virtual std::optional<std::string> join_refusal() = 0;
  // The addresses at which workers may connect: of all live daemons of the cluster, this one first.
  virtual std::vector<std::string> addresses() = 0;
  // The longest output that a SETTLE may have while no other connection sends a large result, for
  // the reply to a JOIN with PARTIAL. 0: that reply does not say it.
  virtual std::uint64_t longest_output() { return 0; }
  // The name of the store in which batches have these numbers. Without a store: the name of this
  // process of the daemon.
  virtual const std::string& store() = 0;
};

}  // namespace locksley::daemon

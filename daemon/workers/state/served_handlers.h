// The handlers that remote workers serve, and how they serve each lane.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/workers/interface/worker_host.h"
#include "daemon/workers/state/remote_worker.h"

namespace locksley::daemon {

// How remote workers serve one lane.
struct RemoteService {
  std::uint32_t slots = 0;                // of workers that serve one of its handlers
  std::map<GateId, std::uint32_t> gates;  // by gate, how many workers serve it
  std::uint64_t leases = 0;
  std::uint64_t claims = 0;  // since the start
};

// Gives each worker the handlers that it can serve, and tells each lane which of its gates remote
// workers serve, and with how many slots. Handlers and permissions change while workers are joined:
// each worker follows the last change when follow() is called for it.
//
// A member of WorkerLink; the host and the lanes outlive it. One thread. Nothing blocks. Only
// allocation fails.
class ServedHandlers {
 public:
  explicit ServedHandlers(WorkerHost& host) : host_(host) {}
  ServedHandlers(const ServedHandlers&) = delete;
  ServedHandlers& operator=(const ServedHandlers&) = delete;

  // Whether a worker of this user can serve the handler at present; if not, why.
  bool can_serve(const std::string& user, std::string_view handler) const;
  std::string why_not_served(const std::string& user, std::string_view handler) const;

  // A worker has joined for these handlers: it serves those that it can serve.
  void join(RemoteWorker& worker, std::span<const std::string_view> names);
  // The worker no longer serves any handler.
  void leave(RemoteWorker& worker) { serve(worker, {}); }

  // The host's handlers, their places, or the permissions of users have changed.
  void note_change() { ++changes_; }
  // Makes the worker follow the last change, if it has not yet. Returns the handlers that it is to
  // serve() from now on; none: the same as before.
  std::optional<std::vector<ServedHandler>> follow(RemoteWorker& worker) const;
  // The worker serves these handlers from now on.
  void serve(RemoteWorker& worker, std::vector<ServedHandler> handlers);

  const std::map<Lane*, RemoteService>& lanes() const { return lanes_; }
  void count_claim(Lane& lane) { ++lanes_[&lane].claims; }
  // A lease of the lane has begun, or is over.
  void add_lease(Lane& lane) { ++lanes_[&lane].leases; }
  void remove_lease(Lane& lane) { --lanes_[&lane].leases; }

 private:
  // Returns the handlers that the worker can serve at present, and puts the others into
  // RemoteWorker::not_served. `names` may refer to the worker's own lists.
  std::vector<ServedHandler> choose(RemoteWorker& worker, std::span<const std::string_view> names) const;

  WorkerHost& host_;
  std::uint64_t changes_ = 0;  // calls of note_change()
  std::map<Lane*, RemoteService> lanes_;
};

}  // namespace locksley::daemon

// Finds the server to write to. Internal to daemon/store/postgres.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "daemon/store/postgres/connection.h"

namespace locksley::daemon {

// Finds, among the servers that a URL names, the one to write to.
//
// After a promotion there may be two that can be written: an old primary that was paused or cut off
// comes back, and takes commands until it learns that another server was promoted. Its standby has
// left it, so a commit there waits without end; its rows are old, and the row of a daemon that took
// over meanwhile is not among them. Each promotion begins a new timeline of the server's log, with
// the next number: the server with the highest number is the one. A daemon that has seen a number
// uses no server with a lower one any more.
//
// Owned by the engine, which outlives all users. Any thread. connect() blocks on the network: for 3
// s if a server does not reply (for each address of its name), of all servers together with kAll.
// The threads of kAll end before it returns.
class PrimaryFinder {
 public:
  explicit PrimaryFinder(std::string url);

  enum class Look : std::uint8_t {
    kFirst,  // the one that kAll found last, and all if it is not that one any more; before, the first in the order of the URL that
             // can be written
    kAll,    // asks all servers at once: after a loss, as the first may be an old primary
  };
  // Connects to it. The error has the message of each server.
  PgExpected<std::unique_ptr<PgConnection>> connect(const std::string& name, Look look);

  // Whether a server with a higher timeline was seen since this connection was made.
  bool is_outdated(const PgConnection& connection) const { return connection.timeline() < newest_.load(); }

 private:
  PgExpected<std::unique_ptr<PgConnection>> connect_to(const std::string& name, const ServerAddress* server);
  PgExpected<std::unique_ptr<PgConnection>> ask_all(const std::string& name);
  PgError old_primary(const PgConnection& connection) const;

  const std::string url_;
  const std::vector<ServerAddress> servers_;  // fewer than two: libpq alone knows which there are
  std::atomic<std::uint32_t> newest_{0};      // the highest timeline that any thread has seen
  std::atomic<const ServerAddress*> last_{
      nullptr};  // of servers_: that kAll found last, written by any thread
};

// The servers that a URL names, in its order; none if it leaves their names to libpq, or is wrong.
// Each has a port if the URL has a list of ports, even one of empty words, as libpq makes of
// `postgresql://a,b/x`: an empty port does not replace that list, which does not fit one server.
std::vector<ServerAddress> servers_in(const std::string& url);

}  // namespace locksley::daemon

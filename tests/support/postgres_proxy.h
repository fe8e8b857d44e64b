// A proxy between an engine and its PostgreSQL server, which breaks connections at the worst
// moments.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "core/sync/mutex.h"

namespace locksley::testing {

// Passes on what it gets, in both directions, between a socket in a folder of its own and that of
// the server. It knows just enough of the protocol to find the COMMIT of a group. Any thread may
// call anything.
class PostgresProxy {
 public:
  // What happens at the next COMMIT, once.
  enum class Fault : std::uint8_t {
    kNone,
    kCutBefore,    // it does not arrive, and the connection is cut
    kCutAfter,     // it arrives, and its reply is lost
    kDeliverLate,  // the client's connection is cut, and it arrives 300 ms later
    kFreeze,       // as freeze(): it does not arrive for now, nor does anything else
  };

  explicit PostgresProxy(const std::filesystem::path& server_socket);
  ~PostgresProxy();
  PostgresProxy(const PostgresProxy&) = delete;
  PostgresProxy& operator=(const PostgresProxy&) = delete;

  const std::string& folder() const { return folder_; }  // the `host` of clients
  void set_fault(Fault fault) { fault_ = fault; }
  // Whether the fault has happened.
  bool is_spent() const { return fault_ == Fault::kNone; }
  // From now on nothing arrives, in either direction, and no connection is closed, until thaw().
  void freeze() { is_frozen_ = true; }
  void thaw() { is_frozen_ = false; }
  bool is_frozen() const { return is_frozen_; }
  // From now on each connection passes at most this many bytes a second to the server.
  void slow_down(std::size_t bytes_per_second) { bytes_per_second_ = bytes_per_second; }

 private:
  void accept_all();
  void serve(int client);
  Fault take_fault(const std::string& message);

  const std::string server_;
  std::string folder_;
  int listener_ = -1;
  std::atomic<Fault> fault_{Fault::kNone};        // written by the test, taken by one thread of the proxy
  std::atomic<bool> is_frozen_{false};            // each thread looks every few milliseconds
  std::atomic<bool> is_ending_{false};            // likewise
  std::atomic<std::size_t> bytes_per_second_{0};  // 0: as many as come. Likewise
  Mutex mutex_;
  std::vector<std::thread> links_ LOCKSLEY_GUARDED_BY(mutex_);
  std::thread acceptor_;  // last: it uses all of the above
};

}  // namespace locksley::testing

// This daemon as a remote worker of another one: all connections to the upstream daemon, and their
// thread.
#pragma once

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <chrono>
#include <cstdint>
#include <expected>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "config/config.h"
#include "core/base/result_account.h"
#include "core/lane/lane.h"
#include "core/pool/pool.h"
#include "core/sync/mutex.h"
#include "daemon/base/loop/stretch_meter.h"
#include "daemon/upstream/lease_runner.h"
#include "daemon/upstream/upstream_connection.h"
#include "daemon/upstream/upstream_meter.h"
#include "daemon/upstream/upstream_metrics.h"
#include "proto/clients/cpp/url.h"

namespace spdlog {
class logger;
}

namespace locksley::daemon {

// The slots and handlers that a lane of this daemon offers to the upstream.
struct OfferedLane {
  Lane* lane = nullptr;
  std::uint32_t slots = 0;
  std::vector<LeaseHandler> handlers = {};
  std::chrono::milliseconds grace{0};  // UpstreamLinkOptions::grace
  bool operator==(const OfferedLane&) const = default;
};

// The upstream's addresses, and the user and password to log in with, from the configuration. The
// error is a sentence.
std::expected<std::vector<client::Address>, std::string> upstream_addresses(const config::Upstream& settings,
                                                                            std::string_view password);

// Leases jobs for the lanes of this daemon, one connection for each lane.
//
// Owned by ServingParts (daemon/parts.h), or by daemon/work_program.cc; the pool and the handlers
// outlive it. Order of calls: offer(), start(), … drain() and stop(), end(). Destroyed after the
// executors of all lanes have ended, since their batches report to it. offer(), drain(), stop():
// any thread; they return at once. start() and end(): main's thread; end() blocks for at most twice
// `patience`. If the upstream cannot be reached, that is logged, and the connection tried again;
// nothing fails.
class Upstream {
 public:
  struct Parts {
    config::Upstream settings;
    std::vector<client::Address> addresses;  // at least one
    std::string host_name;                   // the worker's name where the configuration has none
    HandlerUse& use;
    const Pool* pool;  // the thread polls only while this has a free worker; null: the thread never polls
    std::shared_ptr<spdlog::logger> log;
    // Called when the upstream refuses a connection that had never joined, because of its user,
    // password or permissions; `why` is the error reply. On the upstream thread, at each attempt;
    // empty: not called. The attempts go on.
    std::function<void(const std::string& why)> refused = {};
  };

  explicit Upstream(Parts parts);
  ~Upstream();
  Upstream(const Upstream&) = delete;
  Upstream& operator=(const Upstream&) = delete;

  // Starts the thread of the connections.
  void start();
  // Offers these lanes from now on, with these slots and handlers. A lane whose offer has changed,
  // or which is no longer offered, finishes or hands back the leases of its old connection.
  void offer(std::vector<OfferedLane> lanes);
  // Claims nothing more. `done` is called on another thread when nothing is held.
  void drain(std::function<void()> done);
  // Asks running jobs to stop, too.
  void stop();
  // Call it after stop(). Waits at most this long until nothing is held; then hands back what is
  // left, and waits as long again for that. Ends the thread.
  void end(std::chrono::milliseconds patience);

  // The lanes of the last offer, by name, for the metrics. Any thread; the mutex is held for a
  // copy.
  std::vector<UpstreamLaneView> lanes() const LOCKSLEY_EXCLUDES(mutex_);

 private:
  // A lane that was offered at some time.
  struct KnownLane {
    explicit KnownLane(ResultAccount& all) : results(&all) {}
    UpstreamMeter meter;
    ResultAccount results;  // of all its connections
    bool is_offered = false;
  };

  struct Served {
    OfferedLane offer;
    std::unique_ptr<UpstreamConnection> connection;
  };

  void run();
  // Adds new lanes, and marks the lanes that are offered now.
  void set_known(const std::vector<OfferedLane>& lanes) LOCKSLEY_REQUIRES(mutex_);
  void take_offer(std::vector<OfferedLane> lanes) LOCKSLEY_REQUIRES(kUpstreamThread);
  void add(OfferedLane offer) LOCKSLEY_REQUIRES(kUpstreamThread);
  std::string name_of(const Lane& lane) const;
  void check_done() LOCKSLEY_REQUIRES(kUpstreamThread);
  void begin_drain() LOCKSLEY_REQUIRES(kUpstreamThread);
  bool is_drained_within(std::chrono::milliseconds patience);
  bool is_busy() const LOCKSLEY_REQUIRES(kUpstreamThread);
  // Lets the connections make the claims that they have postponed.
  void claim_put_off() LOCKSLEY_REQUIRES(kUpstreamThread);
  // Whether some connections have put off CLAIMs, and all of these expect results soon.
  bool may_stay_put_off() const LOCKSLEY_REQUIRES(kUpstreamThread);
  template <class Function>
  void post(Function function);

  // Constant.
  const Parts parts_;

  asio::io_context io_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  ResultAccount results_;  // of all lanes
  IoStretches stretches_;

  // The lanes that were ever offered: for results_, and by name. No entry is removed, since
  // connections refer to the meters and the accounts, which need no lock.
  mutable Mutex mutex_;
  std::vector<Lane*> lanes_ LOCKSLEY_GUARDED_BY(mutex_);
  std::map<std::string, KnownLane, std::less<>> known_ LOCKSLEY_GUARDED_BY(mutex_);

  std::vector<Served> served_ LOCKSLEY_GUARDED_BY(kUpstreamThread);
  // Connections of earlier offers. Kept, because Asio may hold callbacks for them.
  std::vector<Served> retired_ LOCKSLEY_GUARDED_BY(kUpstreamThread);
  // Of drain(); empty: not asked for, or called.
  std::function<void()> done_ LOCKSLEY_GUARDED_BY(kUpstreamThread);
  bool is_draining_ LOCKSLEY_GUARDED_BY(kUpstreamThread) = false;
  std::uint64_t seed_ LOCKSLEY_GUARDED_BY(kUpstreamThread);

  std::thread thread_;
};

}  // namespace locksley::daemon

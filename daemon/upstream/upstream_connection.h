// One connection to the upstream daemon: the link with a socket, TLS, timers and a runner.
#pragma once

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/result_account.h"
#include "core/lane/lane.h"
#include "daemon/upstream/connection_reports.h"
#include "daemon/upstream/lease_runner.h"
#include "daemon/upstream/link/upstream_link.h"
#include "daemon/upstream/upstream_meter.h"
#include "proto/clients/cpp/tls.h"
#include "proto/clients/cpp/url.h"

namespace spdlog {
class logger;
}

namespace locksley::daemon {

// Connects, and reconnects, for one lane of this daemon; feeds the link, and makes the lane run the
// leased jobs.
//
// Owned by Upstream, which has the io_context and the thread; both outlive it. Destroyed when the
// thread has ended. The upstream thread only, which the compiler checks; results of other threads
// come through the runner's wake-up. Only reading certificates blocks. Every failure is logged,
// once for each address and reason until the next join, and tried again.
class UpstreamConnection final : private LeaseSink {
 public:
  struct Parts {
    asio::io_context& io;
    UpstreamLinkOptions link;
    Lane& lane;
    std::vector<LeaseHandler> handlers;
    bool are_handlers_named;  // by `upstream.handlers`; else all handlers are offered
    HandlerUse& use;
    // The lane's account for the memory of results, in batches and until they are acknowledged.
    ResultAccount& results;
    UpstreamMeter& meter;                             // of the lane
    std::function<void()> changed;                    // is_done() may have changed
    std::function<void(const std::string&)> refused;  // Upstream::Parts; may be called several times
    std::shared_ptr<spdlog::logger> log;
  };

  explicit UpstreamConnection(Parts parts);
  ~UpstreamConnection() override;

  void start() LOCKSLEY_REQUIRES(kUpstreamThread) { serve(); }
  // As those of UpstreamLink.
  void drain() LOCKSLEY_REQUIRES(kUpstreamThread);
  void stop() LOCKSLEY_REQUIRES(kUpstreamThread);
  bool is_done() const LOCKSLEY_REQUIRES(kUpstreamThread) {
    return link_.is_done() && runner_.running() == 0;
  }
  bool is_joined() const LOCKSLEY_REQUIRES(kUpstreamThread) { return link_.is_joined(); }
  // Whether a lease runs.
  bool is_busy() const LOCKSLEY_REQUIRES(kUpstreamThread) { return runner_.running() != 0; }
  // Makes the claim that the link has postponed.
  void claim_put_off() LOCKSLEY_REQUIRES(kUpstreamThread);
  // Whether it has put off a CLAIM; and whether a CLAIM that it has put off may wait a little for
  // results.
  bool puts_off_claims() const LOCKSLEY_REQUIRES(kUpstreamThread) {
    return is_open_ && link_.puts_off_claims();
  }
  bool may_stay_put_off() const LOCKSLEY_REQUIRES(kUpstreamThread) {
    return !puts_off_claims() || link_.expects_results_soon();
  }
  // Hands back all leases, though their jobs may still run here, and leaves.
  void leave() LOCKSLEY_REQUIRES(kUpstreamThread);
  // Closes the socket at once, cancels leases, and drops their results.
  void abandon() LOCKSLEY_REQUIRES(kUpstreamThread);

 private:
  // LeaseSink; called by the runner.
  void settle(LeaseKey lease, JobStatus status, std::uint64_t first, std::uint64_t count,
              std::string outputs) override;
  void ended(LeaseKey lease) override;
  bool try_send_news(LeaseKey lease, std::uint64_t index, const JobNews& news) override;
  void keep_last_news(LeaseKey lease, std::uint64_t index, const JobNews& news) override;

  // Call it after each event: writes the link's bytes, sets its timer, and closes or opens the
  // socket if the link asks for that.
  void serve() LOCKSLEY_REQUIRES(kUpstreamThread);
  void take_results() LOCKSLEY_REQUIRES(kUpstreamThread);
  // While leases run, the timer sends the news of their jobs to the upstream.
  void arm_news_timer() LOCKSLEY_REQUIRES(kUpstreamThread);
  void connect() LOCKSLEY_REQUIRES(kUpstreamThread);
  // Fails the connection attempt after this time, counted from now.
  void arm_connect_timer(std::chrono::milliseconds time) LOCKSLEY_REQUIRES(kUpstreamThread);
  void on_connected(const asio::error_code& error) LOCKSLEY_REQUIRES(kUpstreamThread);
  void secure() LOCKSLEY_REQUIRES(kUpstreamThread);
  void open() LOCKSLEY_REQUIRES(kUpstreamThread);
  void read() LOCKSLEY_REQUIRES(kUpstreamThread);
  // Sends the output: at once what a plain socket takes, which is nearly always all; the rest by an
  // operation of Asio.
  void write(Nanoseconds now) LOCKSLEY_REQUIRES(kUpstreamThread);
  // Sends what the plain socket takes without waiting. False: the socket is broken.
  bool write_now(Nanoseconds now) LOCKSLEY_REQUIRES(kUpstreamThread);
  // Closes the socket; informs the link when the last operation on the socket has ended.
  void close(std::string why) LOCKSLEY_REQUIRES(kUpstreamThread);
  void end_operation() LOCKSLEY_REQUIRES(kUpstreamThread);
  void arm_timer() LOCKSLEY_REQUIRES(kUpstreamThread);
  // Asks the system for the socket's round trip, once a second at most.
  void measure_round_trip(Nanoseconds now) LOCKSLEY_REQUIRES(kUpstreamThread);
  void set_socket_options() LOCKSLEY_REQUIRES(kUpstreamThread);
  // How long sent bytes may stay without an acknowledgement of TCP before the connection is broken.
  void set_silence(std::chrono::milliseconds lease) LOCKSLEY_REQUIRES(kUpstreamThread);

  // Constant.
  const Parts parts_;

  LeaseRunner runner_;
  UpstreamLink link_ LOCKSLEY_GUARDED_BY(kUpstreamThread);
  ConnectionReports reports_ LOCKSLEY_GUARDED_BY(kUpstreamThread);
  ResultAccount::Charge kept_ LOCKSLEY_GUARDED_BY(kUpstreamThread);
  asio::ip::tcp::resolver resolver_ LOCKSLEY_GUARDED_BY(kUpstreamThread);
  asio::ip::tcp::socket socket_ LOCKSLEY_GUARDED_BY(kUpstreamThread);
  std::unique_ptr<client::TlsStream> tls_ LOCKSLEY_GUARDED_BY(kUpstreamThread);  // over socket_; null: plain
  asio::steady_timer timer_ LOCKSLEY_GUARDED_BY(kUpstreamThread);
  asio::steady_timer connect_timer_ LOCKSLEY_GUARDED_BY(kUpstreamThread);
  asio::steady_timer hold_off_timer_ LOCKSLEY_GUARDED_BY(kUpstreamThread);
  asio::steady_timer news_timer_ LOCKSLEY_GUARDED_BY(kUpstreamThread);
  bool news_timer_is_armed_ LOCKSLEY_GUARDED_BY(kUpstreamThread) = false;
  Nanoseconds timer_at_ LOCKSLEY_GUARDED_BY(kUpstreamThread){};      // 0: not armed
  std::size_t operations_ LOCKSLEY_GUARDED_BY(kUpstreamThread) = 0;  // on the socket, that have not ended
  // Until the link is connected, or knows why it is not.
  bool is_connecting_ LOCKSLEY_GUARDED_BY(kUpstreamThread) = false;
  bool is_open_ LOCKSLEY_GUARDED_BY(kUpstreamThread) = false;
  bool is_closing_ LOCKSLEY_GUARDED_BY(kUpstreamThread) = false;
  bool is_writing_ LOCKSLEY_GUARDED_BY(kUpstreamThread) = false;
  bool is_abandoned_ LOCKSLEY_GUARDED_BY(kUpstreamThread) = false;
  std::string why_ LOCKSLEY_GUARDED_BY(kUpstreamThread);  // why it closes
  // When the round trip was measured; 0: never.
  Nanoseconds measured_at_ LOCKSLEY_GUARDED_BY(kUpstreamThread){};
};

}  // namespace locksley::daemon

// The link to the upstream daemon: this process as its remote worker. Without I/O and threads.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/job.h"
#include "daemon/upstream/link/command_pipeline.h"
#include "daemon/upstream/link/connection_attempts.h"
#include "daemon/upstream/link/held_lease.h"
#include "daemon/upstream/link/job_news.h"
#include "daemon/upstream/link/lease_beats.h"
#include "daemon/upstream/link/lease_claims.h"
#include "daemon/upstream/link/lease_lifecycle.h"
#include "daemon/upstream/link/lease_reclaims.h"
#include "daemon/upstream/link/lease_table.h"
#include "daemon/upstream/link/unacknowledged_results.h"
#include "daemon/upstream/link/upstream_host.h"
#include "daemon/upstream/replies/join_reply.h"
#include "daemon/upstream/replies/reply_cursor.h"
#include "proto/clients/cpp/route.h"
#include "proto/clients/cpp/url.h"
#include "proto/output_buffer.h"

namespace locksley::daemon {

// How a link joins its upstream.
struct UpstreamLinkOptions {
  static constexpr std::uint32_t kMostSlots = 4'096;  // an upstream allows no more

  // At least one: the daemons of one cluster, of which one serves. All have the same user, password
  // and TLS.
  std::vector<client::Address> addresses = {client::Address{}};
  // Whether a daemon may send this worker to another machine.
  client::Route::Reach reach = client::Route::Reach::kAnywhere;
  std::string name;         // of this worker
  std::uint32_t slots = 1;  // leases that run at once; at least 1
  std::vector<std::string> handlers;
  // How long their programs may take to end after the time-out of a job.
  std::chrono::milliseconds grace{0};
  static constexpr std::chrono::milliseconds kMostGrace = std::chrono::minutes(10);  // that JOIN may tell
  std::uint64_t max_kept_bytes = std::uint64_t{1} << 30;  // results that are not acknowledged
  std::uint64_t seed = 1;                                 // of the random part of the back-off
  // How long a CLAIM waits at the upstream: shorter than the time-outs of proxies. A guess.
  std::chrono::milliseconds block = std::chrono::minutes(1);
  // The most time from the connection to the reply to JOIN. A guess.
  std::chrono::milliseconds join_timeout = std::chrono::seconds(10);
  // After JOIN: how long the upstream may send nothing while a reply is due. Much longer than a
  // disk delays a SETTLE. A guess.
  std::chrono::milliseconds reply_timeout = std::chrono::seconds(30);
};

// Counters, and how much is held now.
struct UpstreamLinkStats {
  std::uint64_t leases = 0;      // that are ready or run
  std::uint64_t kept_bytes = 0;  // of results that are not acknowledged
  // Since the start:
  std::uint64_t connections = 0;  // on which JOIN succeeded
  std::uint64_t leased_jobs = 0;
  std::uint64_t settled_jobs = 0;  // of which the upstream has recorded the result
  std::uint64_t yielded_jobs = 0;  // handed back
  std::uint64_t reclaimed_leases = 0;
  std::uint64_t lost_leases = 0;
  // Dropped because the upstream no longer has their handlers; all these leases are lost:
  std::uint64_t dropped_leases = 0;
  std::uint64_t dropped_jobs = 0;   // of which a result was kept
  std::uint64_t dropped_bytes = 0;  // of these results
};

// One connection to the upstream, for one lane of this daemon. Bytes, instants and results go in;
// bytes, leases and orders come out:
//
//   if (link.wants_connection()) connect to link.address(); link.connected(now);
//   n = read(fd, link.space()); link.received(n, now);
//   … link.flush(now); n = write(fd, link.output()); link.sent(n, now);
//   if (link.is_broken()) close the socket; link.disconnected(now);
//   sleep until link.next_timer(), then link.advance(now)
//
// README.md has the states, and the order in which addresses are tried. The host is called inside
// these calls; it reports by settle() and ended(). Losing the connection loses no result: the link
// keeps unacknowledged results, and sends them again after RECLAIM, unless the upstream has another
// store, or no handlers for the link any more. So the upstream records each index at most once, and
// each leased index ends, or goes back.
//
// Owned by the code that has the socket; the host outlives it. One thread; nothing blocks. `now` is
// any clock that does not go back. Whatever the upstream sends, the worst outcome is is_broken();
// trouble() says why. Memory: two leases for each slot, and kept results. New leases are claimed
// only while those are at most max_kept_bytes.
//
// This class connects, joins, drains and leaves, and passes each reply and order to the part
// concerned; the parts hold the leases and results.
class UpstreamLink {
 public:
  // News of running jobs waits while the upstream has not taken more bytes of output than this. A
  // guess.
  static constexpr std::size_t kMostUnsent = std::size_t{1} << 20;

  UpstreamLink(UpstreamHost& host, UpstreamLinkOptions options, Nanoseconds now);
  ~UpstreamLink();
  UpstreamLink(const UpstreamLink&) = delete;
  UpstreamLink& operator=(const UpstreamLink&) = delete;

  // ---- The connection ----

  // Whether to connect now.
  bool wants_connection(Nanoseconds now) const {
    return phase_ == Phase::kDown && !is_done() && now >= attempts_.next_at();
  }
  // Where to connect, and as which user; while there is a connection, its other end.
  const client::Address& address() const { return attempts_.address(); }
  // Whether there are other addresses to try: then the owner should not wait long for one that does
  // not answer.
  bool has_other_addresses() const { return attempts_.has_other_addresses(); }
  // The connection is made, and has sent nothing.
  void connected(Nanoseconds now);
  // The connection is closed, or could not be made: `why` for the log.
  void disconnected(std::string why, Nanoseconds now);
  // Where the owner puts the bytes that it reads from the connection; received() tells their
  // number.
  std::span<char> space() { return pipeline_.space(); }
  void received(std::size_t bytes, Nanoseconds now);
  proto::OutputBuffer& output() { return pipeline_.output(); }
  // The connection took the first `bytes` of output(), which are gone from it.
  void sent(std::size_t bytes, Nanoseconds now) { pipeline_.sent(bytes, now); }
  // The connection is broken: the owner must close it, and call disconnected().
  bool is_broken() const { return !trouble().empty() && phase_ != Phase::kDown; }
  bool is_joined() const { return phase_ == Phase::kReclaiming || phase_ == Phase::kServing; }
  // The reply to the last JOIN; empty before the first. While there is a connection without a JOIN,
  // `not_served` is empty.
  const JoinReply& joined() const { return joined_; }
  // Why there is no connection, or why it is broken; empty: nothing is wrong.
  const std::string& trouble() const { return pipeline_.trouble(); }
  // Whether the trouble is that the upstream does not send RESP3.
  bool is_not_resp3() const { return pipeline_.is_not_resp3(); }

  // ---- Results ----

  // The jobs first, first + 1, … of the lease ended with `status`. `outputs`: `count` encoded bulk
  // strings. At most once for each index, and for no withdrawn one. Ignored if the lease is lost.
  void settle(LeaseKey lease, JobStatus status, std::uint64_t first, std::uint64_t count, std::string outputs,
              Nanoseconds now);
  // As the functions of LeaseSink.
  bool try_send_news(LeaseKey lease, std::uint64_t index, const JobNews& news, Nanoseconds now);
  void keep_last_news(LeaseKey lease, std::uint64_t index, const JobNews& news);
  // The lease will have no more results: jobs without a result go back.
  void ended(LeaseKey lease, Nanoseconds now);
  // Call it after a series of calls: asks for more leases, unless that is put off.
  void flush(Nanoseconds now);
  // True after a lease that came when the upstream had had no job for a while. Then the next CLAIM
  // is not urgent, and goes with the results of this lease, in one message. Or claim_put_off()
  // sends it: the caller must call that when it has nothing else to do, and soon in any case,
  // because other slots may be idle until then.
  bool puts_off_claims() const { return claims_.puts_off(); }
  // The same, and results to send them with are expected soon, as the last lease was short.
  bool expects_results_soon() const { return puts_off_claims() && lifecycle_.was_last_short(); }
  void claim_put_off(Nanoseconds now);

  // ---- The end ----

  // Claims nothing more, hands back the jobs that have not started, and leaves when the rest is
  // settled.
  void drain(Nanoseconds now);
  // The same, and running jobs are asked to stop.
  void stop(Nanoseconds now);
  // The same, and gives up running jobs: LEAVE hands them back, and drops results that come later.
  void leave(Nanoseconds now);
  // After drain() or stop(): nothing is held, and the upstream knows all results.
  bool is_done() const { return is_draining_ && leases_.empty() && (has_left_ || phase_ == Phase::kDown); }

  // ---- Time ----

  // When the owner calls advance() next; none: not before another call.
  std::optional<Nanoseconds> next_timer() const;
  void advance(Nanoseconds now);
  // The same for report_waiting(). BEATs come too rarely: while a lease waits here behind other
  // jobs, idle machines could run its jobs.
  std::optional<Nanoseconds> next_check() const { return beats_.next_check(); }
  // Sends a BEAT if such a lease still waits, or no longer waits; LeaseBeats says when.
  void report_waiting(Nanoseconds now);

  UpstreamLinkStats stats() const;

 private:
  enum class Phase : std::uint8_t { kDown, kGreeting, kJoining, kReclaiming, kServing, kLeaving };
  using Kind = AwaitedReply::Kind;

  // upstream_link.cc
  void on_reply(ReplyCursor reply, std::string_view bytes);
  void on_orders(ReplyCursor reply);
  // An order from its name on, with `values` values.
  void on_order(ReplyCursor& order, std::uint64_t values);
  void on_claim(const AwaitedReply& awaited, ReplyCursor reply, std::string_view bytes);
  void claim();
  void leave_if_idle();

  // upstream_link_join.cc
  void on_hello(ReplyCursor reply);
  void send_join();
  void on_join(ReplyCursor reply);
  // The upstream has refused JOIN because it has no handler of this link. While draining: if it has
  // answered only this for the length of a lease, all leases are lost, with their results.
  void on_no_handlers();

  const UpstreamLinkOptions options_;

  Phase phase_ = Phase::kDown;
  Nanoseconds join_until_{};
  bool tells_grace_ = true;  // this upstream accepts JOIN with GRACE, as far as is known
  JoinReply joined_;
  bool is_draining_ = false;
  bool has_left_ = false;
  UpstreamLinkStats stats_;  // without the counts of the parts

  // The parts. Each refers only to earlier ones.
  ConnectionAttempts attempts_;
  CommandPipeline pipeline_;
  LeaseTable leases_;
  UnacknowledgedResults results_;
  LeaseBeats beats_;
  LeaseLifecycle lifecycle_;
  LeaseClaims claims_;
  LeaseReclaims reclaims_;
};

}  // namespace locksley::daemon

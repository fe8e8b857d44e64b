// The link to remote workers: their connections, leases and orders. No I/O and no threads.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/job.h"
#include "daemon/workers/desks/claim_desk.h"
#include "daemon/workers/desks/join_desk.h"
#include "daemon/workers/desks/reclaim_desk.h"
#include "daemon/workers/desks/report_desk.h"
#include "daemon/workers/interface/worker_commands.h"
#include "daemon/workers/interface/worker_host.h"
#include "daemon/workers/interface/worker_link_options.h"
#include "daemon/workers/interface/worker_link_stats.h"
#include "daemon/workers/state/lane_backoffs.h"
#include "daemon/workers/state/out_leases.h"
#include "daemon/workers/state/reclaim_holds.h"
#include "daemon/workers/state/remote_worker.h"
#include "daemon/workers/state/served_handlers.h"
#include "daemon/workers/state/worker_accounts.h"
#include "daemon/workers/state/worker_clock.h"
#include "daemon/workers/state/worker_connections.h"
#include "daemon/workers/state/worker_orders.h"
#include "proto/argument_list.h"
#include "proto/reply_writer.h"

namespace locksley::daemon {

// All remote workers of a daemon. Commands and instants go in; replies, orders and the next instant
// come out:
//
//   id = link.connect(user, protocol);
//   link.execute(id, arguments, now); …; link.disconnect(id, now);
//   for (id : link.take_ready()) link.sent(id, send(link.output(id)));
//   sleep until link.next_timer(), then link.advance(now)
//
// The commands are JOIN, CLAIM, SETTLE, NOTE, YIELD, BEAT, RECLAIM and LEAVE; README.md describes
// each, and what happens when something fails. The link gives each command to one of its desks, and
// itself handles connections and the passing of time. It uses only the owner's clock (`now`): the
// same clock in all calls, which goes on while the machine is suspended; an earlier instant counts
// as the last one.
//
// Owned by the code that has the sockets; the host and the lanes outlive it. One thread. claim() of
// a lease may wait for payloads on a disk; nothing else blocks. Peers are hostile: all that they
// can make large is bounded (WorkerLinkOptions, WorkerConnections), and errors name the limit. The
// destructor hands all leases back to their lanes.
class WorkerLink {
 public:
  using Id = WorkerConnections::Id;

  // `life`: a random number of this process, not 0.
  WorkerLink(WorkerHost& host, const WorkerLinkOptions& options, std::uint64_t life, Nanoseconds now);
  ~WorkerLink();
  WorkerLink(const WorkerLink&) = delete;
  WorkerLink& operator=(const WorkerLink&) = delete;

  // ---- Connections ----

  // A connection has come. `user`: empty before its login.
  Id connect(std::string user, proto::Protocol protocol);
  void set_protocol(Id id, proto::Protocol protocol);
  // The peer has logged in, before it has joined or after.
  void set_user(Id id, std::string user);
  // For a connection that answers a command by itself: writes its next reply, in the order of its
  // commands. Call end_claim() before.
  proto::ReplyWriter reply(Id id) { return connections_.reply(id); }
  // The connection is closed: what its worker holds goes back at once.
  void disconnect(Id id, Nanoseconds now);
  // Executes one command. Every command gets one reply, now or later, in their order.
  void execute(Id id, const proto::ArgumentList& arguments, Nanoseconds now);
  // Bytes of an incomplete command have arrived, or the peer has taken unsent bytes.
  void heard(Id id, Nanoseconds now);
  // All whole commands of the connection have been executed, and a part of the next one has come.
  void has_unfinished(Id id, Nanoseconds now);
  // The connection will answer the next command, such as PING, by itself: ends a CLAIM that waits.
  void end_claim(Id id, Nanoseconds now);
  // The owner does not read from the connection for lack of memory, until reads_again(): meanwhile
  // its worker is not silent, and none of the worker's jobs is late.
  void stops_reading(Id id, Nanoseconds now);
  void reads_again(Id id, Nanoseconds now);
  // Shows a worker with PUSH that the owner lives.
  void show_life(Id id);
  // The owner closes the connection for lack of memory. No loss is counted for its leases; a
  // RECLAIM that names one gets its jobs until disconnect(). Call disconnect() once has_leases() is
  // false, or time_to_return() has passed since the connection was closed. Call end_claim() before.
  void send_away(Id id);
  bool has_leases(Id id) const;
  std::chrono::milliseconds time_to_return() const { return options_.reclaim; }
  // A measured round trip, for example by TCP.
  void note_round_trip(Id id, Nanoseconds sample);
  // Whether to read from the connection. Ask after each call.
  bool accepts_commands(Id id) { return has_room() && connections_.accepts_commands(id); }
  proto::OutputBuffer& output(Id id) { return connections_.find(id)->output; }
  // The peer has taken so many bytes of output(), which loses them. True: a user may have room
  // again for CLAIMs that wait, so call wake() soon.
  [[nodiscard]] bool sent(Id id, std::size_t bytes);
  // The connection has replies that wait until results are written.
  bool holds_replies(Id id) const { return connections_.is_holding(id); }
  // Connections that got bytes to send.
  std::vector<Id> take_ready();
  // The output of the connection has only replies to SETTLE and empty replies to CLAIM, and its
  // worker waits for jobs. So these replies are sent together with the jobs, or at next_timer().
  bool is_put_off(Id id) const { return connections_.is_put_off(id); }

  // ---- What happens in the daemon ----

  // There may be more to claim (RemoteExecutors::lane_has_work(), which must post this call), or
  // the store has room again.
  void wake(Nanoseconds now);
  // Since the last wake(), something was not claimed because the store had no room. The owner then
  // calls wake() soon: it may have got room since.
  bool lacks_room() const { return claims_.lacks_room(); }
  // Batches were cancelled or paused: workers that get pushes are told at once.
  void check_batches(Nanoseconds now);
  // Results up to this number are written: WorkerHost::last_write().
  void written(std::uint64_t ticket) { connections_.written(ticket); }
  // Whether replies wait for written(), and the number for which the last of them waits.
  bool awaits_store() const { return connections_.is_holding(); }
  std::uint64_t last_ticket() const { return connections_.last_ticket(); }
  // The owner has read nothing for a while, because its process was stopped or the machine was
  // suspended. What workers sent meanwhile has yet to be read, so no worker counts as silent, and
  // no job as late, before a third of its lease, at most 1 s, has passed. While the store has no
  // room the link does the same by itself.
  void listens_again(Nanoseconds now);
  // The host's handlers, their places, or the permissions of users have changed: workers stop
  // serving handlers that were removed or that they may no longer serve, until these are back.
  // Needs: no lease of a handler that has moved is out. Each worker follows the change before it
  // gets jobs again, and the others in calls of follow_handlers().
  void handlers_changed() {
    handlers_.note_change();
    next_to_follow_ = 0;
  }
  // Makes workers follow the last change of handlers, until about `most` names of handlers were
  // looked up. True: all workers have followed it.
  bool follow_handlers(std::size_t most, Nanoseconds now);
  // No more claims; workers are told to hand back the jobs that have not started.
  void drain(Nanoseconds now);

  // ---- Time ----

  // When advance() has something to do; none: nothing.
  std::optional<Nanoseconds> next_timer() const;
  void advance(Nanoseconds now);

  // ---- Inspection ----

  WorkerLinkStats stats() const;
  const std::map<Id, RemoteWorker>& workers() const { return workers_; }
  const std::map<Lane*, RemoteService>& lanes() const { return handlers_.lanes(); }
  // The workers of this worker's user hold as many bytes of payloads as they may: none of them gets
  // jobs.
  bool is_at_limit(const RemoteWorker& worker) const { return accounts_.room_for_lease(worker.account) == 0; }
  // How many bytes are charged for payloads of leases of the connection that are over.
  std::uint64_t unsent_bytes(Id id) const { return accounts_.unsent_bytes(id); }

 private:
  void dispatch(Id id, const proto::ArgumentList& arguments);
  bool has_room() {
    const bool has_room = host_.has_room();
    lacked_room_ = lacked_room_ || !has_room;
    return has_room;
  }
  // Does what is due for the worker: it is silent, its CLAIM has waited long enough, or a job of it
  // is late.
  void look_at(RemoteWorker& worker);

  // A worker whose replies wait for the store for this long is shown that the daemon lives. A
  // guess: shorter than the time-outs of workers, and longer than a working disk needs.
  static constexpr std::chrono::seconds kLongWait{5};

  // Constant.
  WorkerHost& host_;
  const WorkerLinkOptions options_;

  // The state of all workers.
  WorkerConnections connections_;
  WorkerAccounts accounts_;
  std::map<Id, RemoteWorker> workers_;  // by connection
  ServedHandlers handlers_;
  WorkerClock clock_;
  ReclaimHolds holds_;
  WorkerLinkStats stats_;  // without the counts that accounts_ has
  LaneBackoffs backoffs_;
  OutLeases leases_;
  WorkerOrders orders_;

  // The commands: each desk changes the state above.
  ClaimDesk claims_;
  ReclaimDesk reclaims_;
  ReportDesk reports_;
  JoinDesk joins_;

  Id next_to_follow_ = 0;  // follow_handlers(): the workers before it have followed the last change
  std::optional<Nanoseconds> hurry_at_;      // from then on no reply is put off
  std::optional<Nanoseconds> show_life_at_;  // none: no reply waits for the store
  bool lacked_room_ = false;                 // since the last advance()
};

}  // namespace locksley::daemon

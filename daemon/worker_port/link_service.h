// The loop of the link thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <expected>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "daemon/base/loop/io.h"
#include "daemon/base/loop/io_mailbox.h"
#include "daemon/base/loop/sliced_work.h"
#include "daemon/base/loop/slices.h"
#include "daemon/base/loop/stretch_meter.h"
#include "daemon/base/loop/turns.h"
#include "daemon/base/net/bound_port.h"
#include "daemon/base/net/listener.h"
#include "daemon/connection/strangers.h"
#include "daemon/store/store.h"
#include "daemon/tls/handshake_queue.h"
#include "daemon/worker_port/awaited_tickets.h"
#include "daemon/worker_port/input_budget.h"
#include "daemon/worker_port/link_host.h"
#include "daemon/worker_port/link_thread.h"
#include "daemon/worker_port/login_desk.h"
#include "daemon/worker_port/machines_publisher.h"
#include "daemon/worker_port/soon_timer.h"
#include "daemon/worker_port/worker_directory.h"
#include "daemon/workers/machines_view.h"
#include "daemon/workers/worker_link.h"

namespace spdlog {
class logger;
}

namespace locksley::daemon {

class WorkerSession;

// All parts of the port that belong to the link thread: the connections, the state machine of the
// protocol (WorkerLink), its timer, the functions that the state machine calls (LinkHost), the
// replies that wait for the store (AwaitedTickets), and the view of machines (MachinesPublisher).
//
// Owned by the WorkerPort, which calls run() on the link thread and outlives it. The link thread
// only, except where it says otherwise. Nothing blocks, but a CLAIM of a batch whose payloads are
// read from the store. Only listen() fails.
class LinkService final : public RemoteExecutors {
 public:
  // Questions to the I/O thread: each function posts the question there, and posts the answer back
  // to the link thread.
  struct Questions {
    std::function<void(LoginQuestion, std::function<void(LoginAnswer)>)> log_in;
    // The batch of this number; null: there is none that is not over. Asked only for workers that
    // have joined.
    std::function<void(std::uint64_t, std::function<void(std::shared_ptr<Batch>)>)> find_batch;
  };
  struct Parts {
    Questions questions;
    Store* store;  // null: all is in memory only
    std::shared_ptr<spdlog::logger> log;
  };

  LinkService(Parts parts, const WorkerLinkOptions& options, MachinesBoard& board,
              std::shared_ptr<const WorkerDirectory> directory) LOCKSLEY_REQUIRES(kLinkThread);
  ~LinkService() override;
  LinkService(const LinkService&) = delete;
  LinkService& operator=(const LinkService&) = delete;

  asio::io_context& io() { return io_; }
  // [any thread] Functions that are posted there run on the link thread.
  IoMailbox& mailbox() const { return mailbox_; }
  // Serves until stop(). `may_poll`: as in IoLoopHooks.
  void run(std::function<bool()> may_poll) LOCKSLEY_REQUIRES(kLinkThread);

  // ---- For the port, by posts ----

  // The error names the address and what the system said.
  std::expected<asio::ip::tcp::endpoint, std::string> listen(BoundPort port) LOCKSLEY_REQUIRES(kLinkThread);
  // Closes connections of users that are not in the directory, or whose credential has changed.
  void set_directory(std::shared_ptr<const WorkerDirectory> directory) LOCKSLEY_REQUIRES(kLinkThread);
  // Store::written() may be higher than before.
  void store_advanced() LOCKSLEY_REQUIRES(kLinkThread);
  void drain() LOCKSLEY_REQUIRES(kLinkThread);
  // Closes all connections, once the workers have the replies to their SETTLEs, or 500 ms have
  // passed: all leases go back, and io() runs out of work. The store must go on writing meanwhile.
  void stop() LOCKSLEY_REQUIRES(kLinkThread);

  // [any thread] As RemoteExecutors.
  void lane_has_work() override;
  void lane_has_stops() override;
  // [any thread] Whether a reply waits for the store. If not, store_advanced() need not be called.
  bool awaits_store() const { return tickets_.awaits_store(); }

  // ---- For connections ----

  WorkerLink& link() LOCKSLEY_REQUIRES(kLinkThread) { return *link_; }
  const WorkerDirectory& directory() const LOCKSLEY_REQUIRES(kLinkThread) { return host_.directory(); }
  const Questions& questions() const { return parts_.questions; }
  HandshakeQueue& handshakes() { return handshakes_; }
  // The turns of connections that wake up (Turns), and of connections that have more to do
  // (Slices). Both go round users.
  Turns& turns() { return turns_; }
  Slices& slices() { return slices_; }
  InputBudget& input() LOCKSLEY_REQUIRES(kLinkThread) { return input_; }
  Strangers& strangers() LOCKSLEY_REQUIRES(kLinkThread) { return strangers_; }
  spdlog::logger& log() const { return *parts_.log; }
  // Wakes all connections as soon as the store has room: a connection pauses, perhaps for lack of
  // room.
  void watch_room() LOCKSLEY_REQUIRES(kLinkThread);
  // Checks commands that have not come whole, about once a second, as long as connections wait for
  // room for their input.
  void watch_input() LOCKSLEY_REQUIRES(kLinkThread);
  // Call it after calls of the link: sends the bytes that the link has written, and sets the timer.
  void after_link() LOCKSLEY_REQUIRES(kLinkThread);
  // The answer to a question of RECLAIM, for the next command of the link.
  void set_found(std::uint64_t number, std::shared_ptr<Batch> batch) LOCKSLEY_REQUIRES(kLinkThread) {
    host_.set_found(number, std::move(batch));
  }
  // The session's coroutine is over.
  void ended(WorkerSession& session) LOCKSLEY_REQUIRES(kLinkThread);

 private:
  void accept(Socket socket) LOCKSLEY_REQUIRES(kLinkThread);
  // Whether there is room for one more connection. At limits.max_clients, a connection that has not
  // logged in for long gives way.
  bool make_room() LOCKSLEY_REQUIRES(kLinkThread);
  // Drops connections whose certificate was issued by no current authority.
  void check_certificates() LOCKSLEY_REQUIRES(kLinkThread);
  void stop_once_replied() LOCKSLEY_REQUIRES(kLinkThread);
  void end() LOCKSLEY_REQUIRES(kLinkThread);
  void arm_timer() LOCKSLEY_REQUIRES(kLinkThread);
  // Makes workers follow a change of handlers, in slices if there are very many.
  void follow_handlers() LOCKSLEY_REQUIRES(kLinkThread);
  // Null: the connection is gone.
  const std::string* peer_of(WorkerLink::Id id) const;

  const Parts parts_;
  asio::io_context io_{1};  // one thread runs it: fewer locks
  IoMailbox& mailbox_;
  std::optional<asio::executor_work_guard<IoExecutor>> work_;
  Listener listener_;
  HandshakeQueue handshakes_;
  IoStretches stretches_;
  Turns turns_;
  Slices slices_;

  InputBudget input_ LOCKSLEY_GUARDED_BY(kLinkThread);
  LinkHost host_;
  std::unique_ptr<WorkerLink> link_ LOCKSLEY_GUARDED_BY(kLinkThread);  // null after end()
  std::map<WorkerLink::Id, std::shared_ptr<WorkerSession>> sessions_ LOCKSLEY_GUARDED_BY(kLinkThread);
  SlicedWork checking_certificates_ LOCKSLEY_GUARDED_BY(kLinkThread);
  Strangers strangers_ LOCKSLEY_GUARDED_BY(kLinkThread);
  AwaitedTickets tickets_;
  MachinesPublisher publisher_;
  Timer timer_;
  std::optional<Nanoseconds> timer_at_ LOCKSLEY_GUARDED_BY(kLinkThread);  // of boot_time(); none: not armed
  SoonTimer room_timer_;
  SoonTimer input_timer_;
  std::uint64_t input_looks_ LOCKSLEY_GUARDED_BY(kLinkThread) = 0;
  Timer stop_timer_;
  Nanoseconds stop_by_ LOCKSLEY_GUARDED_BY(kLinkThread){};      // of boot_time()
  bool is_following_ LOCKSLEY_GUARDED_BY(kLinkThread) = false;  // follow_handlers() has slices

  // Set by any thread that posts, cleared by the link thread before it acts.
  std::atomic<bool> work_is_posted_{false};
  std::atomic<bool> stops_are_posted_{false};
};

}  // namespace locksley::daemon

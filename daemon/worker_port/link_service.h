// The loop of the link thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <expected>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

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
#include "daemon/worker_port/input_budget.h"
#include "daemon/worker_port/link_thread.h"
#include "daemon/worker_port/login_desk.h"
#include "daemon/worker_port/worker_directory.h"
#include "daemon/workers/machines_view.h"
#include "daemon/workers/worker_host.h"
#include "daemon/workers/worker_link.h"

namespace spdlog {
class logger;
}

namespace locksley::daemon {

class WorkerSession;

// All parts of the port that belong to the link thread: the connections, the state machine of the
// protocol (WorkerLink), its timer, and the functions that the state machine calls (WorkerHost).
//
// Owned by the WorkerPort, which calls run() on the link thread and outlives it. The link thread
// only, except where it says otherwise. Nothing blocks, but a CLAIM of a batch whose payloads are
// read from the store. Only listen() fails.
class LinkService final : public WorkerHost, public RemoteExecutors {
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
  // Connections of users that it does not have, or whose credential it has changed, are closed.
  void set_directory(std::shared_ptr<const WorkerDirectory> directory) LOCKSLEY_REQUIRES(kLinkThread);
  // Store::written() may be higher than before.
  void store_advanced() LOCKSLEY_REQUIRES(kLinkThread);
  void drain() LOCKSLEY_REQUIRES(kLinkThread);
  // Closes everything, once the workers have the replies to what they have settled, or 500 ms have
  // passed: all leases go back, and io() runs out of work. The store must go on writing meanwhile.
  void stop() LOCKSLEY_REQUIRES(kLinkThread);

  // [any thread] As RemoteExecutors.
  void lane_has_work() override;
  void lane_has_stops() override;
  // [any thread] Whether a reply waits for the store, so that store_advanced() is of use.
  bool awaits_store() const {
    // [link-awaits-store] seq_cst: pairs with the store's ticket. The link sets the flag before it
    // checks whether the ticket is written; the I/O thread reads the flag after the ticket was
    // written. So one of the two sees the other.
    return awaits_store_.load();
  }

  // ---- For connections ----

  WorkerLink& link() LOCKSLEY_REQUIRES(kLinkThread) { return *link_; }
  const WorkerDirectory& directory() const LOCKSLEY_REQUIRES(kLinkThread) { return *directory_; }
  const Questions& questions() const { return parts_.questions; }
  HandshakeQueue& handshakes() { return handshakes_; }
  // The turns of connections that wake up, and of those that have more to do. Both go round users.
  Turns& turns() { return turns_; }
  Slices& slices() { return slices_; }
  InputBudget& input() LOCKSLEY_REQUIRES(kLinkThread) { return input_; }
  Strangers& strangers() LOCKSLEY_REQUIRES(kLinkThread) { return strangers_; }
  spdlog::logger& log() const { return *parts_.log; }
  // Wakes all connections soon, once the store has room: a connection pauses, perhaps for lack of
  // it.
  void watch_room() LOCKSLEY_REQUIRES(kLinkThread);
  // Looks at commands that have not come whole, about once a second, for as long as connections
  // wait for room for their input.
  void watch_input() LOCKSLEY_REQUIRES(kLinkThread);
  // To be called after calls of the link: sends the bytes that these have written, and sets the
  // timer.
  void after_link() LOCKSLEY_REQUIRES(kLinkThread);
  // The answer to a question of RECLAIM, for the next command of the link.
  void set_found(std::uint64_t number, std::shared_ptr<Batch> batch) LOCKSLEY_REQUIRES(kLinkThread);
  // The session's coroutine is over.
  void ended(WorkerSession& session) LOCKSLEY_REQUIRES(kLinkThread);

 private:
  // WorkerHost
  bool may_work(std::string_view user) override;
  bool may_serve(std::string_view user, std::string_view handler) override;
  HandlerPlace place_of(std::string_view handler) override;
  std::vector<std::string> handlers_for(std::string_view user) override;
  std::vector<HandlerPlace> places() override;
  std::uint64_t number_of(const Batch& batch) override;
  std::shared_ptr<Batch> batch_of(std::uint64_t number) override;
  bool has_room() override;
  std::uint64_t last_write() override;
  std::optional<std::string> join_refusal() override;
  std::vector<std::string> addresses() override;
  std::uint64_t longest_output() override;
  const std::string& store() override { return store_; }

  void accept(Socket socket) LOCKSLEY_REQUIRES(kLinkThread);
  // Whether there is room for one connection more. At limits.max_clients one that has not logged in
  // for long gives way.
  bool make_room() LOCKSLEY_REQUIRES(kLinkThread);
  // Drops connections whose certificate was issued by no current authority.
  void check_certificates() LOCKSLEY_REQUIRES(kLinkThread);
  // Tells the link what the store has written.
  void note_written() LOCKSLEY_REQUIRES(kLinkThread);
  void stop_once_replied() LOCKSLEY_REQUIRES(kLinkThread);
  void end() LOCKSLEY_REQUIRES(kLinkThread);
  void arm_timer() LOCKSLEY_REQUIRES(kLinkThread);
  // While the store has no room the link asks again soon.
  void publish_soon() LOCKSLEY_REQUIRES(kLinkThread);
  // Makes a new view and publishes it; in slices if there are very many workers.
  void publish() LOCKSLEY_REQUIRES(kLinkThread);
  // Goes on with the view until about `until`. True: it is published.
  bool describe_until(Instant until) LOCKSLEY_REQUIRES(kLinkThread);
  // Workers follow a change of handlers, in slices if there are very many.
  void follow_handlers() LOCKSLEY_REQUIRES(kLinkThread);
  void add_to_view(const RemoteWorker& worker, const WorkerSession& session) LOCKSLEY_REQUIRES(kLinkThread);
  MachineView describe(const RemoteWorker& worker, const WorkerSession& session) const;

  const Parts parts_;
  const std::string store_;  // the store's name, or that of this life
  MachinesBoard& board_;
  asio::io_context io_{1};  // one thread runs it: fewer locks
  IoMailbox& mailbox_;
  std::optional<asio::executor_work_guard<IoExecutor>> work_;
  Listener listener_;
  HandshakeQueue handshakes_;
  IoStretches stretches_;
  Turns turns_;
  Slices slices_;

  std::shared_ptr<const WorkerDirectory> directory_ LOCKSLEY_GUARDED_BY(kLinkThread);
  std::unique_ptr<WorkerLink> link_ LOCKSLEY_GUARDED_BY(kLinkThread);  // null after end()
  std::map<WorkerLink::Id, std::shared_ptr<WorkerSession>> sessions_ LOCKSLEY_GUARDED_BY(kLinkThread);
  SlicedWork checking_certificates_ LOCKSLEY_GUARDED_BY(kLinkThread);
  Strangers strangers_ LOCKSLEY_GUARDED_BY(kLinkThread);
  InputBudget input_ LOCKSLEY_GUARDED_BY(kLinkThread);
  std::pair<std::uint64_t, std::shared_ptr<Batch>> found_ LOCKSLEY_GUARDED_BY(kLinkThread);
  // Tickets for which replies wait, and since when.
  std::deque<std::pair<Ticket, Nanoseconds>> settles_ LOCKSLEY_GUARDED_BY(kLinkThread);
  DurationHistogram settle_time_;
  Ticket asked_for_ LOCKSLEY_GUARDED_BY(kLinkThread) = 0;  // the store was asked to write soon up to this one
  Timer timer_;
  std::optional<Nanoseconds> timer_at_ LOCKSLEY_GUARDED_BY(kLinkThread);  // of boot_time(); none: not armed
  Timer room_timer_;
  bool room_timer_is_armed_ LOCKSLEY_GUARDED_BY(kLinkThread) = false;
  Timer input_timer_;
  bool input_timer_is_armed_ LOCKSLEY_GUARDED_BY(kLinkThread) = false;
  std::uint64_t input_looks_ LOCKSLEY_GUARDED_BY(kLinkThread) = 0;
  Timer stop_timer_;
  Nanoseconds stop_by_ LOCKSLEY_GUARDED_BY(kLinkThread){};  // of boot_time()
  Timer view_timer_;
  bool view_timer_is_armed_ LOCKSLEY_GUARDED_BY(kLinkThread) = false;
  Nanoseconds view_took_ LOCKSLEY_GUARDED_BY(kLinkThread){};
  std::shared_ptr<MachinesView> view_ LOCKSLEY_GUARDED_BY(kLinkThread);  // that is being made; null: none
  WorkerLink::Id next_in_view_ LOCKSLEY_GUARDED_BY(kLinkThread) = 0;     // it has the workers before
  bool view_has_slices_ LOCKSLEY_GUARDED_BY(kLinkThread) = false;
  bool is_following_ LOCKSLEY_GUARDED_BY(kLinkThread) = false;  // follow_handlers() has slices

  // Set by any thread that posts, cleared by the link thread before it acts.
  std::atomic<bool> work_is_posted_{false};
  std::atomic<bool> stops_are_posted_{false};
  std::atomic<bool> awaits_store_{false};
};

}  // namespace locksley::daemon

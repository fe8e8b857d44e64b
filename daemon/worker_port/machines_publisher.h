// Makes the view of remote workers that pages, metrics and WORKERS show.
#pragma once

#include <functional>
#include <memory>

#include "core/base/job.h"
#include "daemon/base/loop/io.h"
#include "daemon/base/loop/slices.h"
#include "daemon/worker_port/awaited_tickets.h"
#include "daemon/worker_port/link_host.h"
#include "daemon/worker_port/link_thread.h"
#include "daemon/worker_port/soon_timer.h"
#include "daemon/workers/machines_view.h"
#include "daemon/workers/worker_link.h"

namespace locksley::daemon {

// Publishes views of the link's workers on the board: at most 20 times a second, in at most a
// hundredth of the thread's time, and in slices if there are very many workers.
//
// Owned by the LinkService, whose other parts outlive it; the link lives until stop(). The link
// thread only. Nothing blocks. Only allocation fails.
class MachinesPublisher {
 public:
  using Id = WorkerLink::Id;
  // The address of the connection's peer; null: the connection is gone.
  using PeerOf = std::function<const std::string*(Id)>;

  MachinesPublisher(asio::io_context& io, Slices& slices, MachinesBoard& board, const LinkHost& host,
                    const AwaitedTickets& tickets, const WorkerLink& link, PeerOf peer_of)
      : slices_(slices),
        board_(board),
        host_(host),
        tickets_(tickets),
        peer_of_(std::move(peer_of)),
        timer_(io),
        link_(&link) {}
  MachinesPublisher(const MachinesPublisher&) = delete;
  MachinesPublisher& operator=(const MachinesPublisher&) = delete;

  // The link was called: publishes a new view soon.
  void publish_soon() LOCKSLEY_REQUIRES(kLinkThread);
  // Makes a new view and publishes it; in slices if there are very many workers.
  void publish() LOCKSLEY_REQUIRES(kLinkThread);
  // Publishes no more views.
  void stop() LOCKSLEY_REQUIRES(kLinkThread);

 private:
  // Goes on with the view until about `until`. True: it is published.
  bool describe_until(Instant until) LOCKSLEY_REQUIRES(kLinkThread);
  void add_to_view(const RemoteWorker& worker, const std::string& peer) LOCKSLEY_REQUIRES(kLinkThread);
  static MachineView describe(const RemoteWorker& worker, const std::string& peer);

  Slices& slices_;
  MachinesBoard& board_;
  const LinkHost& host_;
  const AwaitedTickets& tickets_;
  const PeerOf peer_of_;
  SoonTimer timer_;
  const WorkerLink* link_ LOCKSLEY_GUARDED_BY(kLinkThread);  // null after stop()
  // The view that is being made; null: none.
  std::shared_ptr<MachinesView> view_ LOCKSLEY_GUARDED_BY(kLinkThread);
  Id next_in_view_ LOCKSLEY_GUARDED_BY(kLinkThread) = 0;  // the view has the workers before this one
  Nanoseconds view_took_ LOCKSLEY_GUARDED_BY(kLinkThread){};
  bool has_slices_ LOCKSLEY_GUARDED_BY(kLinkThread) = false;
};

}  // namespace locksley::daemon

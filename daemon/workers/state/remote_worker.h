// One remote worker that has joined: its slots and its leases.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/job.h"
#include "core/lane/lane.h"
#include "core/lane/slot_times.h"
#include "daemon/workers/interface/worker_commands.h"
#include "daemon/workers/interface/worker_host.h"
#include "daemon/workers/state/out_lease.h"
#include "daemon/workers/state/worker_accounts.h"

namespace locksley::daemon {

// A handler that a worker serves.
struct ServedHandler {
  std::string name;
  HandlerPlace place;
};
// The gates of one lane at which a worker, or a CLAIM, takes jobs.
struct ServedLane {
  Lane* lane = nullptr;
  GateSet gates;
};
std::vector<ServedLane> lanes_of(std::span<const ServedHandler> handlers);

// What the names of a worker's handlers take in memory, whether it serves them or not: each its
// bytes, and kBytesOfName.
inline constexpr std::uint64_t kBytesOfName = 64;  // a ServedHandler, and the allocator's part
std::uint64_t bytes_of_names(std::span<const std::string_view> handlers);

// The mean of a link's round trips: each new one counts an eighth, as in RFC 6298, "Computing TCP's
// Retransmission Timer". 0: not measured.
class RoundTrip {
 public:
  void add(Nanoseconds sample) {
    const Nanoseconds limited = std::clamp(sample, Nanoseconds{0}, Nanoseconds(std::chrono::seconds(60)));
    mean_ = mean_.count() == 0 ? limited : mean_ + (limited - mean_) / 8;
  }
  Nanoseconds mean() const { return mean_; }

 private:
  Nanoseconds mean_{};
};

// Commands of a worker that do not arrive at once, such as large results on a slow connection. They
// form a series while each begins to come soon after the end of the previous one. Any command of
// the series may have the result of a job that ended after the series began. A member of
// RemoteWorker; one thread. Nothing blocks or fails.
class SlowCommands {
 public:
  // All whole commands have been executed, and a part of the next one has come. `longest_pause`:
  // between two commands of a series.
  void part_came(Nanoseconds now, Nanoseconds longest_pause) {
    if (std::exchange(is_coming_, true)) return;
    if (!began_ || now - ended_ > longest_pause) began_ = now;
  }
  void whole_came(Nanoseconds now) {
    if (std::exchange(is_coming_, false)) ended_ = now;
  }
  // When the last series began; none: there was none.
  std::optional<Nanoseconds> began() const { return began_; }
  // When its last bytes came. `heard`: when the worker's last bytes came.
  Nanoseconds last_came(Nanoseconds heard) const { return is_coming_ ? heard : ended_; }

 private:
  std::optional<Nanoseconds> began_;
  bool is_coming_ = false;
  Nanoseconds ended_{};  // of the last command of the series that has come whole
};

// A CLAIM that waits for jobs.
struct WaitingClaim {
  ClaimCommand claim;  // without views: its handlers are in `lanes`
  std::vector<ServedLane> lanes;
  std::uint64_t order = 0;  // the order of its arrival, or RemoteWorker::idle_order
  Nanoseconds until{};
};

// A worker. Owned by the link; one thread. Needs: its leases end before it is destroyed. Nothing
// blocks.
class RemoteWorker {
 public:
  RemoteWorker(std::uint64_t connection_in, const JoinCommand& command, std::string user_in,
               WorkerAccount& account_in, Nanoseconds lease)
      : connection(connection_in),
        name(command.name),
        user(std::move(user_in)),
        account(account_in),
        lease_time(lease),
        grace(command.grace),
        wants_pushes(command.wants_pushes),
        name_bytes(bytes_of_names(command.handlers)),
        slots(command.slots) {}

  OutLease* find(std::uint64_t number);
  // The places of its handlers.
  std::vector<HandlerPlace> places() const {
    std::vector<HandlerPlace> result;
    for (const ServedHandler& handler : handlers) result.push_back(handler.place);
    return result;
  }
  // How long a lease should take: long compared with a round trip, short compared with the length
  // of a lease.
  Nanoseconds quantum() const;
  // Whether the lease has had its slots for longer than twice quantum(): its jobs take longer than
  // expected.
  bool is_overdue(const OutLease& out, Nanoseconds now) const;
  // The leases that wait behind this one on any of its slots, each once. O(width).
  std::vector<OutLease*> behind(const OutLease& out);
  // Begins the leases that are in front on one of these slots and have not begun. Displaced leases
  // go on.
  void begin_leases(std::uint32_t first_slot, std::uint32_t width, Nanoseconds now);
  // The worker has reported that a job of the lease has ended or begun: the lease has run on its
  // slots, whichever lease was in front there. O(width).
  void note_run(OutLease& out, Nanoseconds now);
  // Shows in the lane (Lane::running()) the jobs of the lease that may run, at most one for each
  // slot on which the lease is in front, and the jobs for which the worker has sent a NOTE. Hides
  // its other jobs.
  void show_running(OutLease& out) const;
  // The same if only ReportedJobs::next() has grown: shows the newly begun jobs, and hides none.
  // O(width).
  void show_begun(OutLease& out) const;
  // Updates the charge for the jobs that the lease shows.
  void count_shown(OutLease& out) const;
  // Updates the charge for the ranges in which the jobs of the lease lie.
  void count_splits(OutLease& out) const;
  // Whether its CLAIM is for a slot that has no lease. Other CLAIMs ask for the next lease of a
  // slot early. Needs: a CLAIM waits.
  bool waits_idle() const {
    const auto slot = waiting->claim.slot;
    return slot ? slots.leases(*slot) == 0 : slots.idle() != 0;
  }
  // Whether an order would reach the worker soon: by a push, or with the reply to its next BEAT.
  bool takes_orders(Nanoseconds now) const { return wants_pushes || (beaten && now - *beaten < lease_time); }
  // A lease that ends sooner is not worth a cut: two quanta, and ten round trips.
  Nanoseconds time_of_cut() const { return 2 * quantum() + 10 * round_trip.mean(); }
  // Until when the answer to LeaseOrders::cut may be under way. A worker that has not answered by
  // then is not expected to help others soon. Needs: there is a cut.
  Nanoseconds answer_due(const OutLease& out) const;
  // How long the leases of each slot will take together, by their first slot, estimated from their
  // jobs that have ended; 0: unknown. O(slots + leases).
  std::vector<Nanoseconds> times_to_go(Nanoseconds now) const;
  // The jobs of the lease that may run, ascending: at most one for each slot on which it is in
  // front.
  std::vector<std::uint64_t> begun_jobs(const OutLease& out) const;

  // The lease is in front: it begins, or goes on after it was displaced.
  void go_on(OutLease& out, Nanoseconds now) const;

  // Constant.
  const std::uint64_t connection;
  const std::string name;
  const std::string user;
  WorkerAccount& account;  // of `user`
  const Nanoseconds lease_time;
  const Nanoseconds grace;  // how long a job may take to end after its time-out
  const bool wants_pushes;
  const std::uint64_t name_bytes;  // bytes_of_names() of `handlers` and `not_served` together

  std::vector<ServedHandler> handlers;
  std::vector<ServedLane> lanes;  // of `handlers`
  // The other handlers of its JOIN: at the moment they do not exist, or its user may not serve
  // them.
  std::vector<std::string> not_served;
  std::uint64_t handlers_changes = 0;  // the last ServedHandlers::note_change() that both follow
  SlotTimes slots;
  std::map<std::uint64_t, std::unique_ptr<OutLease>> leases;  // by number
  std::optional<WaitingClaim> waiting;
  // The place that its CLAIMs for idle slots keep among the waiting CLAIMs until it gets a lease:
  // each command ends a CLAIM, and the worker sends another one. 0: none.
  std::uint64_t idle_order = 0;
  RoundTrip round_trip;
  std::optional<Nanoseconds> beaten;  // its last BEAT
  Nanoseconds heard{};  // when its last bytes came, or when it got its first lease after it had none
  // When it gave back a lease that was in front, but of which it had begun no job. None: it has
  // not, or it has begun a job since.
  std::optional<Nanoseconds> held_up;
  // The worker was silent for so long that it lost its leases, or this connection was given up
  // (given_up). Until it sends something again, it does not count as serving its handlers.
  bool is_silent = false;
  // The worker has reclaimed leases of this connection on another one, so it had given up this one;
  // or the owner has closed this one. The leases up to this number end without a loss: leases that
  // the worker does not reclaim, it never got. 0: none.
  std::uint64_t given_up = 0;
  // Whether the owner reads what it sends, and since when; 0: always.
  bool is_read = true;
  Nanoseconds read_since{};
  SlowCommands slow_commands;
  Nanoseconds joined{};
  std::uint64_t jobs = 0;          // jobs that it has ended
  std::uint64_t lost = 0;          // leases that it lost
  Nanoseconds charged{};           // when its leases were last charged for their use
  std::size_t next_lane = 0;       // of `lanes`, for the next CLAIM
  std::optional<Nanoseconds> due;  // its place among the link's timers
};

}  // namespace locksley::daemon

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
#include <vector>

#include "core/base/job.h"
#include "core/lane/lane.h"
#include "core/lane/lease.h"
#include "core/lane/slot_times.h"
#include "daemon/workers/worker_account.h"
#include "daemon/workers/worker_commands.h"
#include "daemon/workers/worker_host.h"

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

// A lease that a worker holds, with the state that the link keeps for it.
struct OutLease {
  OutLease(Lane& lane, LeaseBuffers& buffers) : lease(lane, buffers) {}

  // How many jobs a lease shows: each takes up to 4 KiB for its note. A guess: a worker runs some
  // jobs of a lease at once, and settles those that have ended within some ms.
  static constexpr std::size_t kMostShown = 1'024;
  // Shows a job that the lease holds to others from now on, if it was not shown before, and returns
  // its entry. Null: the lease shows kMostShown other jobs.
  ShownJob* shown_job(std::uint64_t index, std::string_view worker);

  // Whether one of its jobs may have begun: the lease is, or was, in front on a slot, or the worker
  // has said so. Not if the worker has given it back without a word.
  bool may_have_begun() const;

  // The attempts of the jobs that it holds are over: their batch gets their last notes.
  void save_notes();

  Lease lease;
  Lease::Shown shown;  // of the jobs that may run, and of those for which the worker has sent a NOTE
  LeaseUse counted;    // of it, in WorkerAccount::leases
  SlotTimes::Occupation occupation;
  std::uint64_t number = 0;  // LeaseName::number
  // Where the reply with its payloads ends: WorkerConnections::Connection::end_of_replies(). 0:
  // there was none.
  std::uint64_t reply_end = 0;
  std::uint64_t next =
      0;  // the lowest index that the worker has not started, by its last BEAT; else the first
  bool has_reported_next = false;  // in a BEAT
  // The jobs below `next` have begun, and no others: the last BEAT came after the last SETTLE,
  // which begins another job, and no NOTE has been about another job since. If not, it is taken for
  // granted that a job runs on each slot on which the lease is in front.
  bool knows_begun = false;
  // The worker has said that a job of it has begun, by a SETTLE, BEAT, NOTE or RECLAIM.
  bool has_reported = false;
  // It went back whole, on an order, and the worker has said that it has begun no job of it: its
  // batch is charged nothing.
  bool was_held_up = false;
  bool is_given_back = false;  // whole, by the worker itself: no report, and no order
  // It was in front, and now it is behind on all its slots: a job of the other lease has run.
  bool is_displaced = false;
  bool was_displaced = false;  // and came to the front again, and none of its jobs has ended since
  // Of a displaced lease: whether the time-out of its jobs counts on. A job ran when the lease was
  // displaced (has_running_job()), or a NOTE has told of one since; or the lease was displaced
  // before, so that a worker that runs other leases all the time puts the time-out off once.
  bool keeps_clock = false;
  // Whether a job of it has begun and has not ended, as the worker has said by BEAT, NOTE or
  // RECLAIM. A SETTLE says nothing of the jobs that it does not end.
  bool has_running_job() const;
  // The job that the last NOTE was about.
  std::optional<std::uint64_t> noted;
  bool is_reclaimed = false;  // and none of its jobs has ended since: the worker runs one of them
  // When one of its jobs has ended, or the first one has begun: the time-out counts from here.
  Nanoseconds progress{};
  // A cut for the sake of others, which the worker has not answered.
  struct Cut {
    std::uint64_t at;
    Nanoseconds planned;
    bool is_for_idle_worker;  // else for batches that wait for its slots
    // When the worker was told first, by a push or with the reply to a BEAT; none: it has yet to
    // be.
    std::optional<Nanoseconds> told = std::nullopt;
  };
  std::optional<Cut> cut;
  // When it was last cut because it lasts too long while others wait.
  std::optional<Nanoseconds> shortened;
  bool has_crashed = false;  // the job that was recorded last
  // Pushes that the worker has not answered.
  std::optional<Nanoseconds> cut_pushed;
  bool stop_pushed = false;
};

// A CLAIM that waits for jobs.
struct WaitingClaim {
  ClaimCommand claim;  // without views: its handlers are in `lanes`
  std::vector<ServedLane> lanes;
  std::uint64_t order = 0;  // of its arrival
  Nanoseconds until{};
};

// A worker. Owned by the link; one thread. Destroyed without leases. Nothing blocks.
class RemoteWorker {
 public:
  RemoteWorker(std::uint64_t connection_in, const JoinCommand& command, std::string user_in,
               WorkerAccount& account_in, Nanoseconds lease)
      : connection(connection_in),
        name(command.name),
        user(std::move(user_in)),
        account(account_in),
        lease_time(lease),
        wants_pushes(command.wants_pushes),
        name_bytes(bytes_of_names(command.handlers)),
        slots(command.slots) {}

  OutLease* find(std::uint64_t number);
  // Of its handlers.
  std::vector<HandlerPlace> places() const {
    std::vector<HandlerPlace> result;
    for (const ServedHandler& handler : handlers) result.push_back(handler.place);
    return result;
  }
  // How long a lease should take: long compared with a round trip, short compared with the length
  // of a lease.
  Nanoseconds quantum() const;
  // Whether the lease has had its slots for longer than twice quantum(): its jobs take longer than
  // was expected.
  bool is_overdue(const OutLease& out, Nanoseconds now) const;
  // The leases that are behind this one on one of its slots. One may be there twice. O(width).
  std::vector<OutLease*> behind(const OutLease& out);
  // Begins the leases that are in front on one of these slots, unless they have begun. Those that
  // were displaced go on.
  void begin_leases(std::uint32_t first_slot, std::uint32_t width, Nanoseconds now);
  // A job of the lease has ended or has begun, as the worker has said: the lease has run on its
  // slots, whichever was in front there. O(width).
  void note_run(OutLease& out, Nanoseconds now);
  // Shows in the lane (Lane::running()) the jobs of the lease that may run, at most one for each
  // slot on which the lease is in front, and the jobs for which the worker has sent a NOTE. Hides
  // its other jobs.
  void show_running(OutLease& out) const;
  // The same if only OutLease::next has grown: shows the jobs that the worker has begun since, and
  // hides none. O(width).
  void show_begun(OutLease& out) const;
  // The lease shows more or fewer jobs than before.
  void count_shown(OutLease& out) const;
  // The jobs of the lease may lie in more or fewer ranges than before.
  void count_splits(OutLease& out) const;
  // Whether an order would reach it soon: by a push, or with the reply to its next BEAT.
  bool takes_orders(Nanoseconds now) const { return wants_pushes || (beaten && now - *beaten < lease_time); }
  // A lease that ends sooner is not worth a cut: two quanta, and ten round trips.
  Nanoseconds time_of_cut() const { return 2 * quantum() + 10 * round_trip.mean(); }
  // Until when the answer to the order of OutLease::cut, which is not none, may be under way. A
  // worker that has not answered by then is not taken to help others soon.
  Nanoseconds answer_due(const OutLease& out) const;
  // How long the leases of each slot will take together, by their first slot, estimated from their
  // jobs that have ended; 0: unknown. O(slots + leases).
  std::vector<Nanoseconds> times_to_go(Nanoseconds now) const;
  // The lowest job of the lease that has not started, as far as the link knows. None: all its jobs
  // have.
  static std::optional<std::uint64_t> first_not_started(const OutLease& lease);
  // The same, but one job for each slot is taken to have started.
  static std::optional<std::uint64_t> first_to_spare(const OutLease& lease);
  // How many of the jobs that the lease holds, the lowest ones, have begun: those below the `next`
  // of its BEATs; and one for each slot on which it is in front, unless the link knows better
  // (OutLease::knows_begun).
  static std::uint64_t begun(const OutLease& lease, std::uint32_t in_front);
  // The index at which the lease could be cut: the middle of the jobs that have not started. None:
  // all have. If one job has not started, it is this job; if the lease holds no other, all of it
  // goes back.
  static std::optional<std::uint64_t> middle(const OutLease& lease);
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
  const bool wants_pushes;
  const std::uint64_t name_bytes;  // bytes_of_names() of `handlers` and `not_served` together

  std::vector<ServedHandler> handlers;
  std::vector<ServedLane> lanes;  // of `handlers`
  // The other handlers of its JOIN: at the moment they are not there, or its user may not serve
  // them.
  std::vector<std::string> not_served;
  std::uint64_t handlers_changes = 0;  // up to which both are: WorkerLink::handlers_changed()
  SlotTimes slots;
  std::map<std::uint64_t, std::unique_ptr<OutLease>> leases;  // by number
  std::optional<WaitingClaim> waiting;
  RoundTrip round_trip;
  std::optional<Nanoseconds> beaten;  // its last BEAT
  Nanoseconds heard{};                // when its last bytes came, or its first lease after it had none
  // When it gave back a lease of which it had begun no job, though it was in front, and it has
  // begun none since; none: it has not.
  std::optional<Nanoseconds> held_up;
  bool is_silent = false;  // it lost its leases since it said nothing, and has said nothing since
  // When a command was found to have come in part; none: the last one has come whole.
  std::optional<Nanoseconds> unfinished_since;
  Nanoseconds joined{};
  std::uint64_t jobs = 0;          // that it has ended
  std::uint64_t lost = 0;          // leases that it lost
  Nanoseconds charged{};           // when its leases were charged for what they had used so far
  std::size_t next_lane = 0;       // of `lanes`, for the next CLAIM
  std::optional<Nanoseconds> due;  // its place among the link's timers
};

}  // namespace locksley::daemon

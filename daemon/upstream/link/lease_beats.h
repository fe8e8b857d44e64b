// BEAT: reports to the upstream on leases that run, and on leases that wait here.
#pragma once

#include <chrono>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/job.h"
#include "daemon/upstream/link/command_pipeline.h"
#include "daemon/upstream/link/lease_table.h"
#include "daemon/upstream/link/upstream_host.h"

namespace locksley::daemon {

// Regularly sends a BEAT with the next job to start of each lease. These BEATs come too rarely for
// a lease that waits here behind other jobs, while idle machines could run its jobs. So it checks
// each lease once, kLook after its begin, and sends a BEAT if none of its jobs has begun; and
// another BEAT when one of them has: if this worker is lost, the upstream counts losses only for
// jobs that it knows to have begun.
//
// A member of the link, and used by its parts; one thread; nothing blocks or fails. It decides when
// a BEAT is due; the link calls it in the phases in which it may send.
class LeaseBeats {
 public:
  LeaseBeats(UpstreamHost& host, LeaseTable& leases, CommandPipeline& pipeline)
      : host_(host), leases_(leases), pipeline_(pipeline) {}
  LeaseBeats(const LeaseBeats&) = delete;
  LeaseBeats& operator=(const LeaseBeats&) = delete;

  // A guess: jobs begin within microseconds if a slot is free, and a person hardly notices a pause
  // of this length.
  static constexpr std::chrono::milliseconds kLook{50};
  // Waiting leases are checked as often at first, and less often while none begins: after a
  // sixteenth of the time that the last one has waited, but at least this often. Guesses.
  static constexpr std::chrono::seconds kSeldomLook{1};

  // JOIN has succeeded. `every`: from one BEAT to the next.
  void joined(Nanoseconds every);
  // A lease has come.
  void came(const HeldLease& lease);
  // The lease's jobs were given to the host.
  void begun(const HeldLease& lease) { new_leases_.emplace_back(lease.key, pipeline_.now()); }
  // A lease has ended. Nearly every lease ends before its check is due, and then needs no timer.
  void drop_ended_looks();

  // When advance() is to be called; none: there is no lease to report.
  std::optional<Nanoseconds> next_beat() const;
  // Sends the BEAT that is due.
  void advance();
  // When the owner calls check_leases().
  std::optional<Nanoseconds> next_check() const;
  // Checks the leases that are due. True: there is news for a BEAT.
  bool check_leases();
  // Sends the news; the next BEAT counts from now on.
  void beat_now();

 private:
  // The longest interval of BEATs while a lease's jobs have a time-out: the upstream ends a job 2 s
  // after its time-out, counted from the last BEAT which says that no job of the lease has begun.
  static constexpr Nanoseconds kBeatsOfTimeouts = std::chrono::seconds(1);

  void beat();
  // The interval from one BEAT to the next. O(leases).
  Nanoseconds interval() const;
  // Checks the waiting leases, if that is due. True: one has begun.
  bool look_at_waiting();

  UpstreamHost& host_;
  LeaseTable& leases_;
  CommandPipeline& pipeline_;

  Nanoseconds beat_every_{};
  Nanoseconds beat_at_{};
  // Leases that the host got within the last kLook, and when.
  std::deque<std::pair<LeaseKey, Nanoseconds>> new_leases_;
  // Leases of which a BEAT has said that none of their jobs has begun, and when.
  std::vector<std::pair<LeaseKey, Nanoseconds>> waiting_;
  Nanoseconds waiting_look_at_{};  // when they are checked next
};

}  // namespace locksley::daemon

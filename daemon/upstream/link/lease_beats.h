// BEAT: the reports to the upstream about leases that run, and about those that wait here.
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

// Says with BEAT, now and then, which job of each lease is the next to start. These BEATs come too
// rarely for a lease that waits here behind other jobs, while idle machines could run its jobs. So
// it checks each lease kLook after its begin, and sends a BEAT if none of its jobs has begun, once
// for each lease; and another one when one of them has begun, because the upstream counts a loss
// only for jobs that have begun as far as it knows.
//
// A member of the link, and used by its parts; one thread; nothing blocks or fails. It decides when
// a BEAT is due; the link, whose phase it does not know, calls it.
class LeaseBeats {
 public:
  LeaseBeats(UpstreamHost& host, LeaseTable& leases, CommandPipeline& pipeline)
      : host_(host), leases_(leases), pipeline_(pipeline) {}
  LeaseBeats(const LeaseBeats&) = delete;
  LeaseBeats& operator=(const LeaseBeats&) = delete;

  // A guess: jobs begin within microseconds where a slot is free, and a person hardly notices so
  // long a pause.
  static constexpr std::chrono::milliseconds kLook{50};
  // The longest pause between checks whether a waiting lease has begun. The checks start as often
  // as kLook, and become rarer while none begins: the pause is a sixteenth of the time that the
  // last lease has waited. Guesses.
  static constexpr std::chrono::seconds kSeldomLook{1};

  // JOIN has succeeded: from one BEAT to the next.
  void joined(Nanoseconds every);
  // A lease has come.
  void came(const HeldLease& lease);
  // Its jobs were given to the host.
  void begun(const HeldLease& lease) { new_leases_.emplace_back(lease.key, pipeline_.now()); }
  // A lease has ended. Nearly every lease ends before its check is due, and then needs no timer.
  void drop_ended_looks();

  // When the owner calls advance(); none: no lease needs a report.
  std::optional<Nanoseconds> next_beat() const;
  // Sends the BEAT that is due.
  void advance();
  // When the owner calls check_leases().
  std::optional<Nanoseconds> next_check() const;
  // Checks the leases whose check is due. True: there is news for a BEAT.
  bool check_leases();
  // Sends the news; the next BEAT counts from now on.
  void beat_now();

 private:
  // The most from one BEAT to the next, while a lease's jobs have a time-out: the upstream ends a
  // job 2 s after it, counted from the last BEAT which says that no job of the lease has begun.
  static constexpr Nanoseconds kBeatsOfTimeouts = std::chrono::seconds(1);

  void beat();
  // From one BEAT to the next. O(leases).
  Nanoseconds interval() const;
  // Checks the leases that wait, if that is due. True: one has begun.
  bool look_at_waiting();

  UpstreamHost& host_;
  LeaseTable& leases_;
  CommandPipeline& pipeline_;

  Nanoseconds beat_every_{};
  Nanoseconds beat_at_{};
  // Since when the host has them: within the last kLook.
  std::deque<std::pair<LeaseKey, Nanoseconds>> new_leases_;
  // Those of which a BEAT has said that none of their jobs has begun, and when.
  std::vector<std::pair<LeaseKey, Nanoseconds>> waiting_;
  Nanoseconds waiting_look_at_{};  // when they are looked at next
};

}  // namespace locksley::daemon

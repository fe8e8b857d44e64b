// The results that the upstream has not acknowledged.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/job.h"
#include "daemon/upstream/link/command_pipeline.h"
#include "daemon/upstream/link/held_lease.h"

namespace locksley::daemon {

// A run of results. Kept until the upstream has acknowledged it.
struct KeptResults {
  LeaseKey lease = 0;
  JobStatus status = JobStatus::kOk;
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  std::string outputs;            // encoded: bulk strings, one after the other
  std::vector<std::string> news;  // sent before them, with NOTE; empty: nothing
  bool is_sent = false;           // on this connection
};

// Keeps results, sends them with SETTLE as soon as their lease has a name, and once more after a
// RECLAIM. Cuts each run into parts that the upstream accepts.
//
// A member of the link, and used by its parts; one thread; nothing blocks or fails. Memory: the
// bytes() of the results; the link claims nothing while these are too many.
class UnacknowledgedResults {
 public:
  explicit UnacknowledgedResults(CommandPipeline& pipeline) : pipeline_(pipeline) {}
  UnacknowledgedResults(const UnacknowledgedResults&) = delete;
  UnacknowledgedResults& operator=(const UnacknowledgedResults&) = delete;

  // The longest output that the upstream accepts; 0: not known.
  void set_longest_output(std::uint64_t bytes) { longest_output_ = bytes; }
  // Keeps the results of a run for the jobs that the lease holds, and sends them if the lease has a
  // name.
  void keep(HeldLease& lease, KeptResults&& run);
  // Sends the lease's unacknowledged results of jobs that it still holds. Returns how many jobs.
  std::uint64_t hand_in(HeldLease& lease);
  // Sends a NOTE with these words after the lease's name.
  void send_note(const HeldLease& lease, const std::vector<std::string>& words);

  // Drops a run that is acknowledged or refused. `lease`: null if it is no longer held. Returns how
  // many jobs the run had; none: it was dropped before.
  std::optional<std::uint64_t> drop(HeldLease* lease, std::uint64_t id);
  void drop_all_of(HeldLease& lease);
  // Sent results must be sent again.
  void connection_lost();

  std::uint64_t bytes() const { return bytes_; }
  std::uint64_t jobs() const;  // O(runs)

 private:
  // As keep() for a run whose jobs the lease holds: in parts that the upstream accepts. A job whose
  // output is too long counts as failed.
  void keep_held(HeldLease& lease, KeptResults&& run);
  void keep_part(HeldLease& lease, KeptResults&& part);
  void send(const HeldLease& lease, std::uint64_t id);

  CommandPipeline& pipeline_;
  std::map<std::uint64_t, KeptResults> kept_;
  std::uint64_t last_id_ = 0;
  std::uint64_t bytes_ = 0;  // of the outputs
  std::uint64_t longest_output_ = 0;
};

}  // namespace locksley::daemon

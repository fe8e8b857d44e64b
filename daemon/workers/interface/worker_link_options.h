// The limits and times of a link. Plain values, in milliseconds, bytes and numbers.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "daemon/workers/interface/worker_commands.h"

namespace locksley::daemon {

// The limits and times of a link.
struct WorkerLinkOptions {
  std::chrono::milliseconds lease = std::chrono::seconds(10);  // unless a worker asks for another
  // After a recovery, only RECLAIM gets jobs for this long.
  std::chrono::milliseconds reclaim = std::chrono::seconds(3);
  bool has_recovered = false;  // the daemon has batches of an earlier process
  std::uint32_t max_losses = 3;
  // Payloads of all leases, and of ended leases whose payloads stay in memory because their workers
  // have not read them. The workers of one user hold no more of it than they leave free
  // (room_beside_others()): half, if no other user holds any. A user that holds nothing always gets
  // one job, and the payload that reaches a limit is still leased. So the total exceeds the limit
  // by one payload of each user at most.
  std::uint64_t max_leased_bytes = std::uint64_t{1} << 30;
  // The most of one lease. Guesses: some ms of the smallest jobs; as many bytes as a link sends in
  // few quanta.
  std::uint64_t max_jobs = 65'536;
  std::uint64_t max_bytes = 16 * 1024 * 1024;
  // The most ranges in which the jobs of a lease may lie, since jobs end in any order: 70 bytes
  // each.
  std::size_t max_parts = 1'024;
  // The most such ranges of all leases, the first of each lease not counted; shared like the bytes.
  // Slots that end their jobs in any order cause no more ranges than there are slots. A guess:
  // twice max_slots; they take 75 MB.
  std::uint64_t max_splits = 1'048'576;
  // The most workers and slots of all users together, shared like the bytes: half for a user alone.
  // Guesses: they take 40 MB and 20 MB.
  std::uint64_t max_workers = 32'768;
  std::uint64_t max_slots = 524'288;
  // The most bytes for the names of the handlers of all workers (bytes_of_names()), shared like the
  // bytes above. A guess: the longest JOIN takes 0.2 MB, and the JOIN of a daemon with the most
  // handlers that a lane can have 0.13 MB.
  std::uint64_t max_name_bytes = std::uint64_t{64} << 20;
  // A NOTE makes a job visible that is not known to have begun, but only while all workers together
  // show fewer jobs than this; shared like the bytes. A guess: they take 40 MB without their notes.
  std::uint64_t max_shown = 131'072;
  // The worker enforces the time-out of a job. The link enforces it later: by this much, and by the
  // time that the worker gives its programs to end (GRACE of JOIN).
  std::chrono::milliseconds timeout_grace = std::chrono::seconds(2);
  WorkerLimits limits = {};
};

}  // namespace locksley::daemon

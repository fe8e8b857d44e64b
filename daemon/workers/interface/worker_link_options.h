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
  // Payloads of all leases, and of those that are over, as long as they are in memory since their
  // workers have not read them. The workers of one user hold no more of it than they leave free
  // (room_beside_others()): half, if no other user holds any. A user that holds nothing always gets
  // one job, and the payload that reaches a limit is still leased. So the total exceeds the limit
  // by one payload of each user at most.
  std::uint64_t max_leased_bytes = std::uint64_t{1} << 30;
  // The most of one lease. Guesses: some ms of the smallest jobs; as many bytes as a link sends in
  // few quanta.
  std::uint64_t max_jobs = 65'536;
  std::uint64_t max_bytes = 16 * 1024 * 1024;
  // The most ranges that the jobs of a lease may lie in, as they end in any order: 70 bytes each.
  std::size_t max_parts = 1'024;
  // The most such ranges beyond the first of each lease, of all leases, shared as the bytes. Leases
  // of slots that end their jobs in any order have no more than there are slots. A guess: twice
  // max_slots; they take 75 MB.
  std::uint64_t max_splits = 1'048'576;
  // The most of all workers together, shared as the bytes: half for a user alone. Guesses: they
  // take 40 MB and 20 MB.
  std::uint64_t max_workers = 32'768;
  std::uint64_t max_slots = 524'288;
  // The most that the names of the handlers of all workers take (bytes_of_names()), shared as the
  // bytes. A guess: one worker with the longest JOIN takes 0.2 MB, and a daemon's with the most
  // handlers that its lane can have 0.13 MB.
  std::uint64_t max_name_bytes = std::uint64_t{64} << 20;
  // A job that has not begun, as far as is known, is shown for a NOTE only while all workers
  // together show fewer jobs than this, shared as the bytes. A guess: they take 40 MB without their
  // notes.
  std::uint64_t max_shown = 131'072;
  // The worker enforces the time-out of a job; the link enforces it this much later, and as much as
  // the worker gives its programs to end (GRACE of JOIN).
  std::chrono::milliseconds timeout_grace = std::chrono::seconds(2);
  WorkerLimits limits = {};
};

}  // namespace locksley::daemon

// Makes room in memory while an account of results is full.
#pragma once

#include <asio/io_context.hpp>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "core/base/job.h"
#include "daemon/base/log/rate_gate.h"
#include "daemon/base/loop/io_thread.h"
#include "daemon/base/loop/sliced_work.h"
#include "daemon/base/loop/slices.h"
#include "daemon/base/time.h"

namespace spdlog {
class logger;
}

namespace locksley::daemon {

class BatchChanges;
class IoMailbox;
class Registry;
class Retention;
class Store;
struct Tenant;

// Makes room for results in memory, and for the data about failed jobs. While an account of results
// is full, no job of its batches starts; while one of failures is full, no jobs are accepted, and
// batches with many failed ones do not retry them. relieve() takes the steps below when an account
// fills up or has room again; when a limit changes; when a batch of a full account has ended or no
// longer waits for its reader; or when a user's last job has ended while the account of all
// failures is full:
//
//   1. If an account of results is full, the store frees the results that the disk has: none of
//      them is lost.
//   2. Batches that are over are evicted (Retention::evict_results()).
//   3. RUNs whose account of results is still full are cancelled: their results could not leave
//      memory before their last job has ended.
//   4. The function of on_room() is called, so that lanes start the jobs that have waited.
//
// Steps 2 and 3 go on in slices, if they take long. Step 2 sees the changes before it; after a
// change during these slices, all steps are taken once more.
//
// After these steps, the log gets a line for a user whose account of failures is still full. A user
// whose account of results is still full gets a line if nothing has changed after kStands.
//
// Owned by Batches. The I/O thread only: accounts change on any thread, so they post to it. Nothing
// blocks or fails.
class ResultRelief {
 public:
  struct Parts {
    asio::io_context& io;
    Slices& slices;
    Registry& registry;
    Retention& retention;
    BatchChanges& changes;
    Store* store;  // null: there is none, and step 1 is left out
    std::shared_ptr<spdlog::logger> log;
  };
  // Sets the function of ResultAccount::on_change().
  explicit ResultRelief(Parts parts);
  // Removes that function: records that are destroyed later still refund their results.
  ~ResultRelief();
  ResultRelief(const ResultRelief&) = delete;
  ResultRelief& operator=(const ResultRelief&) = delete;

  // Called when results in memory may have room again.
  void on_room(std::function<void()> told) LOCKSLEY_REQUIRES(kIoThread) { on_room_ = std::move(told); }
  void relieve() LOCKSLEY_REQUIRES(kIoThread);
  // The same after kSoon, once for all calls until then: for frequent events. A refused command
  // must not call it: the evicted batches may be another user's.
  void relieve_soon() LOCKSLEY_REQUIRES(kIoThread);
  // The same as soon as the next batch no longer waits for its reader (Retention::next_return()).
  // Called while an account is full.
  void wait_for_readers() LOCKSLEY_REQUIRES(kIoThread);

  static constexpr std::chrono::milliseconds kSoon{100};

  static constexpr std::chrono::milliseconds kStands{10'000};

 private:
  void relieve_later(IoMailbox& mailbox);
  // Steps 2 to 4.
  void evict() LOCKSLEY_REQUIRES(kIoThread);
  // Goes on until about `until`. True: all is done.
  bool evict_until(Instant until) LOCKSLEY_REQUIRES(kIoThread);

  // Warns of accounts that are full after step 4, at once or later.
  void warn_of_full() LOCKSLEY_REQUIRES(kIoThread);
  void look_later() LOCKSLEY_REQUIRES(kIoThread);
  void warn_of_standing() LOCKSLEY_REQUIRES(kIoThread);

  const Parts parts_;
  std::function<void()> on_room_ LOCKSLEY_GUARDED_BY(kIoThread);
  bool is_relieving_ LOCKSLEY_GUARDED_BY(kIoThread) = false;  // relieve() has begun, and step 4 is not done
  bool must_repeat_ LOCKSLEY_GUARDED_BY(kIoThread) = false;   // as soon as evicting_ is done
  SlicedWork evicting_ LOCKSLEY_GUARDED_BY(kIoThread);        // evict_until()
  // How many RUNs step 3 has yet to check; none: step 2 is not done.
  std::optional<std::size_t> runs_left_ LOCKSLEY_GUARDED_BY(kIoThread);
  // The users whose accounts of results were full: how many bytes each held, and since when.
  struct Standing {
    std::uint64_t bytes;
    Instant since;
  };
  std::map<const Tenant*, Standing> standing_ LOCKSLEY_GUARDED_BY(kIoThread);
  Timer timer_ LOCKSLEY_GUARDED_BY(kIoThread);  // warn_of_standing()
  bool is_timed_ LOCKSLEY_GUARDED_BY(kIoThread) = false;
  Timer soon_ LOCKSLEY_GUARDED_BY(kIoThread);  // relieve_soon()
  bool is_soon_ LOCKSLEY_GUARDED_BY(kIoThread) = false;
  Timer readers_ LOCKSLEY_GUARDED_BY(kIoThread);                // wait_for_readers()
  Instant readers_at_ LOCKSLEY_GUARDED_BY(kIoThread) = kNever;  // kNever: it is not armed
  RateGate result_lines_ LOCKSLEY_GUARDED_BY(kIoThread){std::chrono::minutes(1)};
  RateGate failure_lines_ LOCKSLEY_GUARDED_BY(kIoThread){std::chrono::minutes(1)};
  // A post that calls relieve() is on its way. Set by the thread that posts, cleared by the I/O
  // thread.
  std::atomic<bool> is_posted_{false};
};

}  // namespace locksley::daemon

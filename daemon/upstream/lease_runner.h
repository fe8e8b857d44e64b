// Runs the jobs of leases in a lane of this daemon, and collects their results.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/batch/batch.h"
#include "core/batch/handler.h"
#include "core/lane/lane.h"
#include "core/sync/mutex.h"
#include "core/sync/thread_role.h"
#include "daemon/base/log/rate_gate.h"
#include "daemon/upstream/handler_use.h"
#include "daemon/upstream/link/job_news.h"
#include "daemon/upstream/link/upstream_host.h"

namespace spdlog {
class logger;
}

namespace locksley::daemon {

// The role of the thread that runs the connections to the upstream (daemon/upstream/upstream.h).
inline constexpr ThreadRole kUpstreamThread;

// A handler that runs jobs of leases, and the gate of its lane to which they belong.
struct LeaseHandler {
  Handler* handler = nullptr;
  GateId gate = 0;
  bool operator==(const LeaseHandler&) const = default;
};

// Takes the results of leases: the link, or a test.
class LeaseSink {
 public:
  virtual ~LeaseSink() = default;
  // As the functions of UpstreamLink.
  virtual void settle(LeaseKey lease, JobStatus status, std::uint64_t first, std::uint64_t count,
                      std::string outputs) = 0;
  virtual void ended(LeaseKey lease) = 0;
  // Sends news of a running job. False: not sent; the caller adds it to the next news.
  virtual bool try_send_news(LeaseKey lease, std::uint64_t index, const JobNews& news) = 0;
  // Keeps the last news of a job, the first one of the next settle() of the lease: it is sent just
  // before the results.
  virtual void keep_last_news(LeaseKey lease, std::uint64_t index, const JobNews& news) = 0;
};

// Each lease is a batch with the indexes of the upstream's batch, and one slot. The executors of
// the lane run it as they run all batches; README.md has what follows from that.
//
// Owned by the connection to the upstream; the lane and the handlers outlive it. The upstream
// thread, which the compiler checks, but for the functions of BatchObserver: any thread. Nothing
// blocks. An unreadable payload, or any other failure of a job, becomes the job's error.
// Destroyed when none of its batches is in the lane: after abandon(), and after the lane's
// executors have ended.
class LeaseRunner final : public UpstreamHost, public BatchObserver {
 public:
  // `results`: the memory that results take is charged to it; null: not counted. `wake` makes the
  // upstream thread call take() soon; any thread calls it.
  LeaseRunner(Lane& lane, std::vector<LeaseHandler> handlers, HandlerUse& use, ResultAccount* results,
              std::function<void()> wake, std::shared_ptr<spdlog::logger> log);
  ~LeaseRunner() override;

  // ---- For the link ----

  bool begin(LeaseKey lease, LeasedJobs jobs) override LOCKSLEY_REQUIRES(kUpstreamThread);
  std::uint64_t withdraw(LeaseKey lease, std::uint64_t at) override LOCKSLEY_REQUIRES(kUpstreamThread);
  void finish(LeaseKey lease) override LOCKSLEY_REQUIRES(kUpstreamThread);
  void stop(LeaseKey lease) override LOCKSLEY_REQUIRES(kUpstreamThread);
  std::uint64_t next(LeaseKey lease) override LOCKSLEY_REQUIRES(kUpstreamThread);

  // ---- Results ----

  // Passes on the results of all leases that have changed. True: the caller has to call again after
  // kHoldOff.
  bool take(LeaseSink& sink) LOCKSLEY_REQUIRES(kUpstreamThread);
  // How long results of a lease that goes on may wait, so that they are settled in large runs.
  static constexpr std::chrono::milliseconds kHoldOff{2};
  // Sends the news since the last call of running jobs of programs. Call it every kNewsPeriod while
  // leases run.
  void send_news(LeaseSink& sink) LOCKSLEY_REQUIRES(kUpstreamThread);
  static constexpr std::chrono::milliseconds kNewsPeriod{1000};  // guess: a person follows a log
  std::size_t running() const LOCKSLEY_REQUIRES(kUpstreamThread) { return leases_.size(); }
  // Cancels all leases, and drops their results. The batches end as their executors end them.
  void abandon() LOCKSLEY_REQUIRES(kUpstreamThread);

  // The tenant of the lane's ring whose share all leases take.
  static constexpr std::string_view kTenant = "(upstream)";
  // The most of one SETTLE. Guesses: some milliseconds of the smallest jobs; as many bytes as a
  // socket takes in a few writes.
  static constexpr std::uint64_t kMostJobs = 65'536;
  static constexpr std::size_t kMostBytes = std::size_t{1} << 20;

 private:
  // A lease's batch.
  struct LeaseBatch final : Batch {
    using Batch::Batch;
    LeaseKey key = 0;
    IndexRange range;
    std::uint64_t taken = 0;  // rows that were passed on
    // The last report to the upstream about a running job.
    struct Told {
      std::optional<std::uint32_t> progress;
      std::string note;
      std::uint64_t log_end = 0;
    };
    std::map<std::uint64_t, Told> told;
    Told told_of(std::uint64_t index) const {
      const auto found = told.find(index);
      return found == told.end() ? Told{} : found->second;
    }
  };

  void batch_changed(const std::shared_ptr<Batch>& batch) override LOCKSLEY_EXCLUDES(mutex_);
  void handler_threw(const Batch& batch, std::uint64_t index, std::string_view what) override;
  void attempt_failed(const Batch&, std::uint64_t, JobStatus, std::string_view) override {}
  LeaseBatch* find(LeaseKey lease) const LOCKSLEY_REQUIRES(kUpstreamThread);
  void cancel(LeaseKey lease, RunningJobs running) LOCKSLEY_REQUIRES(kUpstreamThread);
  static void pass_on(LeaseBatch& batch, LeaseSink& sink);
  // The last news of this job, which has ended; empty: none.
  static JobNews last_news(LeaseBatch& batch, const ResultRow& row);

  // Constant.
  Lane& lane_;
  const std::vector<LeaseHandler> handlers_;
  HandlerUse& use_;
  ResultAccount* const results_;
  const std::function<void()> wake_;
  const std::shared_ptr<spdlog::logger> log_;

  std::unordered_map<LeaseKey, std::shared_ptr<LeaseBatch>> leases_ LOCKSLEY_GUARDED_BY(kUpstreamThread);

  Mutex mutex_;
  std::vector<std::shared_ptr<LeaseBatch>> changed_ LOCKSLEY_GUARDED_BY(mutex_);
  bool woken_ LOCKSLEY_GUARDED_BY(mutex_) = false;  // the upstream thread was woken, and will call take()
  // take() will be called within kHoldOff without a wake-up.
  bool holding_off_ LOCKSLEY_GUARDED_BY(mutex_) = false;
  RateGate threw_ LOCKSLEY_GUARDED_BY(mutex_){std::chrono::seconds(1)};
};

}  // namespace locksley::daemon

// A lease: jobs of one batch that another machine holds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/index_set.h"
#include "core/batch/batch.h"
#include "core/lane/lane.h"
#include "core/lane/loss_counts.h"
#include "core/lane/result_writer.h"
#include "core/lane/shown_jobs.h"
#include "core/lane/turn.h"

namespace locksley {

// The request for a lease.
struct LeaseRequest {
  std::uint64_t most_jobs = 1;
  // About how many bytes of payloads: the job that reaches the limit still belongs to the lease.
  std::size_t most_bytes = ~std::size_t{0};
  std::uint32_t width = 1;  // how many slots of the machine run its jobs side by side
  Nanoseconds quantum{0};   // how long it should take; 0: the lane's
  // Gates of the lane that are open to remote executors (Lane::Gates::set_remote()). Null: all such
  // gates.
  const GateSet* gates = nullptr;
};

// Buffers that the leases of one thread share. Between two calls of leases, only the payloads are
// in use (Lease::payloads()).
struct LeaseBuffers {
  ResultWriter writer{ResultWriter::For::kExternal};
  std::vector<std::string_view> payloads;
  std::string scratch;
  std::string facts;
};

// A turn whose jobs run elsewhere, in any order: the sibling of ExternalExecutor. A lease is *out*
// from claim() or reclaim() on, until it is over. Any number of leases of one batch may be out at
// once.
//
//   claim() or reclaim()       it is out; the machine is sent the payloads
//   begin()                    its first job runs
//   end_jobs()                 some of its jobs have ended; any number of times, in any order
//   set_started()              how many of its jobs have started, before some of them go back
//   give_back()                its tail, or all that is left, is queued again; any number of times
//   charge_so_far()            its batch is charged for the lease's service so far
//   settle() lose() expire()   the lease is over
//
// Who holds an index: each job is queued, has ended, or is held by exactly one lease or executor.
// end_jobs() records those jobs that this lease holds, and ignores the others; so each job is
// recorded once, even if a machine answers late, twice or wrongly. The jobs that a lease still
// holds when it is over go back.
//
// The program measures the service, by a clock of its own (core/lane/slot_times.h): it is the sum
// of the times of the lease's slots.
// Owned by the code that talks to the machine; the lane and the buffers outlive it. A lease that is
// destroyed while it is out is settled for its charge so far.
// One thread at a time. claim() blocks if fetching the batch's payloads blocks. Nothing else
// blocks: results pile up in a journal that has no room, so the program claims nothing then. A job
// whose payload can never be read ends as an error; if a payload cannot be read now, its batch
// pauses. Calls in a wrong order abort.
class Lease {
 public:
  // Jobs that are shown as running, by index.
  using Shown = std::map<std::uint64_t, std::unique_ptr<ShownJob>>;

  Lease(Lane& lane, LeaseBuffers& buffers) : lane_(lane), buffers_(buffers), turn_(lane) {}
  ~Lease();
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  // Where the jobs run; kept with the results of failed jobs and of jobs in `shown`. Both arguments
  // live as long as this. May be called at any time.
  void set_worker(std::string_view worker, const Shown* shown) {
    worker_ = worker;
    shown_ = shown;
  }

  // ---- Not out ----

  // Takes jobs of the batch that is owed most. False: there is nothing to claim. All jobs of a
  // lease have the same attempt number. A job that has a note is leased alone
  // (Batch::Attempts::note()).
  bool claim(const LeaseRequest& request);
  // Takes those jobs of `wanted` that are queued and have this attempt number, for a machine that
  // runs them already: it had lost its connection, or this process has just started. Looks at no
  // more than kMostParts ranges of jobs with equal attempts, and takes the first `most_parts`
  // ranges of what is left, at least one; the others stay queued. Takes back one loss of each job
  // that it takes (LossCounts). There are no payloads. False: it took none, since none was left, or
  // the batch is in another lane, or is held since its handler may move (Hold::kHandler).
  static constexpr std::size_t kMostParts = 1024;  // a guess; as FairRing::Leases::kMostSearched
  bool reclaim(Batch& batch, IndexRange wanted, std::uint32_t attempt, std::uint32_t width,
               LossCounts& losses, std::size_t most_parts = kMostParts);

  // ---- Out ----

  bool is_out() const { return turn_.is_held(); }
  Batch& batch() const { return turn_.batch(); }
  Lane& lane() const { return lane_; }
  GateId gate() const { return turn_.gate(); }
  // From its first job to its last one, when it was claimed or reclaimed.
  IndexRange range() const { return range_; }
  // The jobs that it still holds.
  const IndexSet& held() const { return held_; }
  // The number of slots that it occupies: at most LeaseRequest::width, the number of its jobs, and
  // what the batch's SLOTS allow. The ring and the batch may count more executors, if the claim
  // also had jobs of another attempt or beyond `most_bytes`, which went back at once.
  std::uint32_t width() const { return width_; }
  // The attempt that its jobs are at.
  std::uint32_t attempt() const { return attempt_; }
  // After claim(), until the next call of a lease that shares the buffers. Empty if the batch's
  // payloads are a range (PayloadSource::range()).
  std::span<const std::string_view> payloads() const { return payloads_; }
  // How many bytes of payloads the machine is sent; for a range, the bytes of its pattern.
  std::size_t payload_bytes() const { return payload_bytes_; }

  // From now on the batch counts it as running. No effect the second time.
  void begin();
  bool has_begun() const { return has_begun_; }
  // Jobs first, first + 1, … have ended with this status, one for each output. Records those that
  // the lease holds, visible to all threads at once, and returns how many these are. An output that
  // is longer than the batch allows ends its job as an error. Begins the lease. If the last jobs
  // that were recorded have crashed, their batch backs off from the settlement on
  // (Lane::end_waits()).
  std::uint64_t end_jobs(JobStatus status, std::uint64_t first, std::span<const std::string_view> outputs,
                         LossCounts& losses);
  // Whether jobs of other batches wait at these gates of the lane, which a remote executor may
  // claim, as far as is known.
  bool others_wait(const GateSet& gates) { return turn_.others_wait(gates); }
  // The lowest `jobs` of the jobs that it holds have started, as far as is known: if they go back,
  // they have used up their starts of a rate. Forgotten when jobs end or go back: so it applies to
  // the next call only.
  void set_started(std::uint64_t jobs) { held_started_ = jobs; }
  // Jobs that the lease holds, from index `from` on, go back. Returns how many.
  std::uint64_t give_back(std::uint64_t from);
  // The batch is charged for `service`, if that is more than it was charged. Otherwise, a tenant
  // whose leases last long would seem to have received nothing.
  void charge_so_far(Nanoseconds service);

  // The lease is over: the jobs that it holds go back. `service`: the whole service that it has
  // used. Returns how many jobs went back.
  std::uint64_t settle(Nanoseconds service);
  // The same for a lease whose machine is gone. `running`: how many of its slots may have run a
  // job. A loss is counted for the first `running` jobs that it holds, and for no others; those
  // with too many losses end as crashed, whatever retries they have.
  struct Lost {
    std::uint64_t counted = 0;  // losses
    std::uint64_t crashed = 0;  // of these, jobs that ended
    std::uint64_t returned = 0;
  };
  Lost lose(Nanoseconds service, std::uint64_t running, LossCounts& losses);
  // The same for a lease whose machine did not enforce the time-out of jobs: the first `running`
  // jobs that it holds end with status timeout, and run again if they have retries. Returns how
  // many others went back.
  std::uint64_t expire(Nanoseconds service, std::uint64_t running, LossCounts& losses);

 private:
  void hold(std::vector<IndexRange> ranges);
  // False: the payload of the first job can never be read, or cannot be read now; the lease is
  // over.
  bool fetch(std::size_t most_bytes);
  void record(JobStatus status, IndexRange jobs, std::string_view output);
  void begin_results();
  // The first job from `from` on that is shown as running; none: the highest number.
  std::uint64_t first_shown(std::uint64_t from) const;
  void end_job(JobStatus status, std::uint64_t index, std::string_view output, Nanoseconds now);
  // Ends jobs as crashed, without a retry.
  void end_crashed(std::span<const std::uint64_t> jobs, std::string_view text);
  // The first `most` jobs that it holds.
  std::vector<std::uint64_t> first_held(std::uint64_t most) const;

  // Constant.
  Lane& lane_;
  LeaseBuffers& buffers_;

  // One thread at a time.
  std::string_view worker_;
  const Shown* shown_ = nullptr;
  Turn turn_;
  IndexRange range_;
  IndexSet held_;
  std::uint32_t width_ = 0;
  std::uint32_t attempt_ = 1;
  bool has_begun_ = false;              // begin() was called
  std::uint64_t held_started_ = 0;      // of the jobs that it holds: the argument of set_started()
  std::uint64_t returned_started_ = 0;  // jobs that went back after they had started
  Nanoseconds charged_so_far_{};
  std::span<const std::string_view> payloads_;
  std::size_t payload_bytes_ = 0;
};

}  // namespace locksley

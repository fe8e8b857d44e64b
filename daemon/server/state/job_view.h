// One job, as JOB and the JSON API show it.
#pragma once

#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/base/loop/io_thread.h"
#include "daemon/server/batches/stored/job_search.h"
#include "daemon/server/records/batch_record.h"

namespace locksley::daemon {

class Batches;
class ServerState;

// The known facts of a job. Unknown texts are empty, and unknown numbers 0. Output and payload may
// have many megabytes: they are not copied, and stay valid as long as both the view and the
// JobLookup that made it.
struct JobView {
  std::uint64_t index = 0;
  std::string_view status = {};
  std::uint32_t attempt = 1;
  std::int64_t started_at = 0;   // Unix milliseconds
  std::int64_t finished_at = 0;  // the same
  std::int64_t duration_us = 0;  // of a running job: so far
  std::string worker = {};
  std::optional<std::int32_t> exit_status = {};
  std::optional<std::uint32_t> progress = {};
  std::optional<std::string> note = {};
  std::uint64_t log_bytes = 0;
  std::optional<std::string_view> output = {};
  std::optional<std::string_view> payload = {};
  std::shared_ptr<const void> payload_owner = {};
};

// Looks up a job in two steps: begin() takes the facts that are in memory, and starts a search for
// the job's result and payload; end() adds these.
//
// Movable; on the stack of the code that asks. The I/O thread only. Nothing blocks: another thread
// searches, and frees a large result.
class JobLookup {
 public:
  ~JobLookup();
  JobLookup(JobLookup&&) = default;
  JobLookup& operator=(JobLookup&&) = default;

  // Begins the search (StoreReads::find_job()) for `client`; `on_found` is called when it is done.
  // The error is the text of the error reply: the batch has no such job.
  static std::expected<JobLookup, std::string> begin(ServerState& state,
                                                     const std::shared_ptr<BatchRecord>& record,
                                                     std::uint64_t index, Waiting client,
                                                     std::function<void(const FoundJob&)> on_found)
      LOCKSLEY_REQUIRES(kIoThread);

  bool is_done() const { return found_->is_done; }
  // Returns the view. Needs: is_done(). The error is the text of the error reply.
  std::expected<JobView, std::string> end() const LOCKSLEY_REQUIRES(kIoThread);

 private:
  enum class Place : std::uint8_t { kUnknown, kRunning, kMaybeRunning, kQueued, kMaybeClaimed };

  explicit JobLookup(Batches& batches) : batches_(&batches) {}

  void look_at_running(const ServerState& state) LOCKSLEY_REQUIRES(kIoThread);
  // For a job that no executor shows. `before`: the status just before the executors were asked.
  void look_at_queue(const ServerState& state, const BatchStatus& before) LOCKSLEY_REQUIRES(kIoThread);
  // How many jobs of the batch the executors show.
  std::uint64_t count_running(const ServerState& state, const BatchStatus& before) const
      LOCKSLEY_REQUIRES(kIoThread);
  // The status of a job for which neither a row nor an executor was found.
  std::string_view status_without_row() const LOCKSLEY_REQUIRES(kIoThread);

  Batches* batches_;
  std::shared_ptr<BatchRecord> record_;
  JobView view_;
  Place place_ = Place::kUnknown;
  std::shared_ptr<const FoundJob> found_;
};

// Calls `visit` with each key of the map and its value: a text or a number, perhaps optional.
inline constexpr std::size_t kJobMembers = 13;
template <class Visit>
void visit_members(const JobView& job, const Visit& visit) {
  visit("index", job.index);
  visit("status", job.status);
  visit("attempt", std::uint64_t{job.attempt});
  visit("started_at", job.started_at);
  visit("finished_at", job.finished_at);
  visit("duration_us", job.duration_us);
  visit("worker", std::string_view(job.worker));
  visit("exit_status", job.exit_status);
  visit("progress", job.progress);
  visit("note", job.note);
  visit("log_bytes", job.log_bytes);
  visit("output", job.output);
  visit("payload", job.payload);
}

}  // namespace locksley::daemon

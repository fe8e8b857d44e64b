#pragma once

#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "config/config.h"
#include "core/batch.h"
#include "daemon/server/batch_id.h"
#include "daemon/server/batch_record.h"
#include "daemon/server/change_queue.h"
#include "daemon/server/events.h"
#include "daemon/server/handler_directory.h"
#include "daemon/server/io.h"
#include "daemon/server/rate_gate.h"
#include "daemon/server/registry.h"
#include "daemon/server/server_stats.h"
#include "proto/argument_list.h"
#include "proto/submit_options.h"

namespace locksley::daemon {

// The life of batches as clients cause it: accepted whole or refused, streamed in, changed, cancelled when
// their deadline passes, forgotten when their time is up; and what the scheduler tells of them, handed on to
// counters, subscribers and whoever waits. The seam at which a store or other daemons come in: everything
// that accepts a batch or hears of its progress goes through here.
//
// Owned by the Server; outlives all its batches. The I/O thread only, but for changes(), which workers call.
// Nothing blocks. Refusals are the text of the error reply.
class Batches {
 public:
  using Refusal = std::string;
  using Accepted = std::expected<std::shared_ptr<BatchRecord>, Refusal>;

  // `config` is what is in force; it may change between calls.
  Batches(asio::io_context& io, const config::Config& config, const HandlerDirectory& handlers,
          ServerStats& stats, std::shared_ptr<spdlog::logger> log);
  Batches(const Batches&) = delete;
  Batches& operator=(const Batches&) = delete;

  Registry& registry() { return registry_; }
  const Registry& registry() const { return registry_; }
  Events& events() { return events_; }

  // `arguments` is the whole command; the payloads stay in it. The same id with the same handler and jobs
  // gives the batch that there is and starts nothing.
  Accepted submit(const proto::SubmitCommand& command, proto::ArgumentList arguments);
  // A batch that nobody can ask for, forgotten as soon as its RUN lets go of it.
  Accepted run(const proto::SubmitCommand& command, proto::ArgumentList arguments);
  // `connection` streams it in.
  Accepted open(const proto::OpenCommand& command, std::uint64_t connection);
  // Jobs that the batch has now. `connection` takes over the streaming, so that the batch outlives the one
  // that opened it.
  std::expected<std::uint64_t, Refusal> add(BatchRecord& record, proto::ArgumentList payloads,
                                            std::uint64_t connection);
  // Jobs in all.
  std::expected<std::uint64_t, Refusal> close(BatchRecord& record);
  // What that connection streamed in closes itself after limits.open_timeout, unless another goes on with it.
  void connection_gone(std::uint64_t connection);

  // Jobs that will not run because of it.
  std::uint64_t cancel(BatchRecord& record, std::string reason);

  // From now on nothing is accepted, and open batches are closed. `on_idle` is called once, when no batch is
  // active any more.
  void drain(std::function<void()> on_idle);
  bool is_draining() const { return draining_; }
  std::size_t active() const { return registry_.active() + runs_; }

  // Takes note now of what became of a batch, if the workers' word of it has not been taken yet.
  void hear_of(BatchRecord& record) { changed(record, std::chrono::steady_clock::now()); }

  // Arms the timer for what is due next; after changes of what is due that did not come through a member of
  // this class.
  void arm_timer();

 private:
  // accept.cc
  std::expected<const HandlerDirectory::Entry*, Refusal> handler_for(const std::string& name);
  std::expected<void, Refusal> check_limits(const std::string& handler, std::uint64_t batch_jobs,
                                            std::uint64_t new_jobs, const proto::ArgumentList* payloads);
  Accepted refuse(const std::string& handler, Refusal why);
  Accepted accept(const proto::SubmitCommand& command, proto::ArgumentList arguments,
                  BatchRecord::Origin origin);
  Accepted existing(BatchRecord& record, const std::string& handler, bool is_same);
  void enter(const std::shared_ptr<BatchRecord>& record, const proto::BatchOptions& options,
             std::uint64_t jobs, bool open);
  std::string new_id();

  // Brings registry, subscribers and waiters up to what the workers have done.
  void apply_changes();
  void take_changes();
  void changed(BatchRecord& record, Instant now);
  void tell_subscribers(BatchRecord& record, const BatchStatus& status, Instant now);
  void ended(BatchRecord& record, const BatchStatus& status);
  void take_due();
  void look_whether_idle();

  const config::Config& config_;
  const HandlerDirectory& handlers_;
  ServerStats& stats_;
  const std::shared_ptr<spdlog::logger> log_;
  Registry registry_;
  Events events_;
  ChangeQueue changes_;
  BatchIds ids_;
  std::unordered_map<std::uint64_t, std::unordered_set<std::uint64_t>>
      streams_;             // open batches by connection
  std::uint64_t runs_ = 0;  // active batches of RUN
  Timer due_timer_;
  Timer changes_timer_;
  bool changes_timer_armed_ = false;
  Instant armed_for_ = kNever;
  bool draining_ = false;
  std::function<void()> on_idle_;
  RateGate done_lines_{std::chrono::milliseconds(100)};
  RateGate full_lines_{std::chrono::minutes(1)};
};

}  // namespace locksley::daemon

// The client's view of the scheduler and of batches. The commands of the wire and the JSON of the
// HTTP API share it, so that both use the same words.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/pool/worker_stats.h"
#include "core/ring/ring_view.h"
#include "daemon/base/loop/io_thread.h"
#include "daemon/base/time.h"
#include "daemon/server/accounts/users.h"
#include "daemon/server/batches/handlers/handler_directory.h"
#include "daemon/server/records/batch_record.h"
#include "daemon/store/cluster_board.h"
#include "daemon/workers/machines_view.h"

namespace locksley::daemon {

class ServerState;

// The answer of EXPLAIN.
struct Explanation {
  BatchState state;
  std::string_view reason;
  bool is_paused;
  std::uint64_t ahead;
  double share;
  double received;
  double jobs_per_second;
  std::int64_t eta_ms;  // -1: unknown
};
// `status`: of this batch. For a batch that waits it visits up to 65,536 queues: 0.1 ms.
Explanation explain(const ServerState& state, BatchRecord& record, const BatchStatus& status)
    LOCKSLEY_REQUIRES(kIoThread);

// The tenants that the user may see, by name. A tenant in several lanes has the sums of its counts
// and the largest of its fractions.
using TenantViews = std::map<std::string, TenantView>;
// kAlways: the user's own tenant is included, even before its first batch.
enum class OwnTenant : std::uint8_t { kAlways, kIfKnown };
TenantViews tenants_seen_by(const ServerState& state, const UserRef& user, OwnTenant own)
    LOCKSLEY_REQUIRES(kIoThread);

// tenants_seen_by() for a caller that must not work for long: an admin sees all tenants of all
// lanes. The I/O thread only. `state` outlives it.
class TenantPages {
 public:
  TenantPages(const ServerState& state, UserRef user, OwnTenant own) LOCKSLEY_REQUIRES(kIoThread);
  // Reads some more of the tenants, for some 50 us. True: all were read.
  bool read_some() LOCKSLEY_REQUIRES(kIoThread);
  // About how many bytes the views take.
  std::size_t memory_bytes() const;
  // Needs: read_some() has returned true.
  TenantViews take() LOCKSLEY_REQUIRES(kIoThread);

 private:
  const ServerState& state_;
  const UserRef user_;
  const OwnTenant own_;
  TenantViews views_;
  std::size_t lane_ = 0;              // whose tenants are read
  std::optional<std::string> after_;  // the last one that was read there
};

// The view of a lane: an admin sees all, another user its own part.
struct LaneSeen {
  std::uint64_t queued = 0;   // jobs
  std::uint64_t running = 0;  // jobs
  std::uint64_t batches = 0;
};
LaneSeen lane_seen_by(const Lane& lane, const User& user);

// The pool's lane, and the lanes that have slots, configured handlers or batches. Other lanes were
// removed from the configuration.
std::vector<const Lane*> lanes_in_use(const ServerState& state) LOCKSLEY_REQUIRES(kIoThread);
// How many jobs of a lane may run at once.
std::uint32_t slots_of(const ServerState& state, const Lane& lane) LOCKSLEY_REQUIRES(kIoThread);
// How many jobs of a handler may run at once, if its lane has as many slots.
std::uint32_t concurrency_of(const ServerState& state, const HandlerDirectory::Entry& entry);

// The members of the wire's maps, in their order: calls `visit` with each key and its value, which
// is a text, a number, a fraction or a bool.

inline constexpr std::size_t kStatusMembers = 19;
template <class Visit>
void visit_members(const BatchRecord& record, const BatchStatus& status, const Visit& visit) {
  visit("id", std::string_view(record.id()));
  visit("name", std::string_view(record.options().name));
  visit("handler", std::string_view(record.handler().name()));
  visit("tenant", std::string_view(record.options().tenant));
  visit("customer", std::string_view(record.options().customer));
  visit("state", to_string(status.state));
  visit("weight", std::uint64_t{status.weight});
  visit("slots", std::uint64_t{status.slots});
  visit("jobs", status.jobs);
  visit("queued", status.queued);
  visit("running", status.running);
  visit("ok", status.ok);
  visit("failed", status.failed);
  visit("cancelled", status.cancelled);
  visit("retried", status.retried);
  visit("retry_rounds", status.retry_rounds);
  visit("submitted_at", status.submitted_at);
  visit("started_at", status.started_at);
  visit("finished_at", status.finished_at);
}

inline constexpr std::size_t kExplanationMembers = 8;
template <class Visit>
void visit_members(const Explanation& explanation, const Visit& visit) {
  visit("state", to_string(explanation.state));
  visit("reason", explanation.reason);
  visit("paused", explanation.is_paused);
  visit("ahead", explanation.ahead);
  visit("share", explanation.share);
  visit("received", explanation.received);
  visit("jobs_per_second", explanation.jobs_per_second);
  visit("eta_ms", explanation.eta_ms);
}

inline constexpr std::size_t kNodeMembers = 7;
template <class Visit>
void visit_members(const ClusterNode& node, const Visit& visit) {
  visit("name", std::string_view(node.name));
  visit("node", static_cast<std::uint64_t>(node.number));
  visit("state", to_string(node.state));
  visit("wire", std::string_view(node.wire));
  visit("workers", std::string_view(node.workers));
  visit("shards", std::uint64_t{node.shards});
  visit("beat_ms", static_cast<std::uint64_t>(node.beat_age(now()).count()));
}

inline constexpr std::size_t kTenantMembers = 8;
template <class Visit>
void visit_members(const TenantView& tenant, const Visit& visit) {
  visit("tenant", std::string_view(tenant.tenant));
  visit("weight", std::uint64_t{tenant.weight});
  visit("batches", tenant.queues);
  visit("queued", tenant.queued);
  visit("running", std::uint64_t{tenant.executors});
  visit("busy_us", static_cast<std::uint64_t>(tenant.busy.count() / 1000));
  visit("share", tenant.share);
  visit("received", tenant.received);
}

inline constexpr std::size_t kWorkerMembers = 10;
template <class Visit>
void visit_members(const WorkerSnapshot& worker, const Visit& visit) {
  visit("worker", std::uint64_t{worker.worker});
  visit("kind", std::string_view("pool"));
  visit("queue_depth", worker.queue_depth);
  visit("executed", worker.jobs);
  visit("steals", worker.steals);
  visit("steal_attempts", worker.steal_attempts);
  visit("stolen", worker.stolen);
  visit("parks", worker.parks);
  visit("busy_us", worker.busy_ns / 1000);
  visit("turn_us", (worker.turn_ns + 999) / 1000);
}

// A remote worker; the caller adds its handlers.
inline constexpr std::size_t kMachineMembers = 10;
template <class Visit>
void visit_members(const MachineView& machine, const Visit& visit) {
  visit("worker", std::string_view(machine.name));
  visit("kind", std::string_view("remote"));
  visit("user", std::string_view(machine.user));
  visit("slots", std::uint64_t{machine.slots});
  visit("busy", std::uint64_t{machine.busy});
  visit("leases", machine.leases);
  visit("jobs", machine.jobs);
  visit("since",
        static_cast<std::int64_t>(
            std::chrono::floor<std::chrono::milliseconds>(machine.since).time_since_epoch().count()));
  visit("rtt_us", static_cast<std::uint64_t>(machine.round_trip.count() / 1000));
  visit("lost", machine.lost);
}

inline constexpr std::size_t kHandlerMembers = 6;
template <class Visit>
void visit_members(const ServerState& state, const HandlerDirectory::Entry& entry, const Visit& visit) {
  visit("name", std::string_view(entry.handler.name()));
  visit("kind", to_string(entry.kind));
  visit("description", std::string_view(entry.handler.description()));
  visit("concurrency", std::uint64_t{concurrency_of(state, entry)});
  visit("lane", std::string_view(entry.lane.name()));
  visit("processes", std::uint64_t{entry.processes ? entry.processes() : 0});
}

// Rounds to four decimals: the rest is noise, and differs each time.
double rounded(double fraction);

}  // namespace locksley::daemon

// Commands that show the scheduler.
#include <algorithm>
#include <cmath>
#include <map>
#include <ranges>

#include "daemon/server/batch_replies.h"
#include "daemon/server/commands.h"
#include "daemon/server/server.h"
#include "daemon/server/session.h"

namespace locksley::daemon {

namespace {

void put(proto::ReplyWriter& reply, std::string_view key, std::uint64_t value) {
  reply.bulk(key);
  reply.integer(static_cast<std::int64_t>(value));
}

void put(proto::ReplyWriter& reply, std::string_view key, std::string_view value) {
  reply.bulk(key);
  reply.bulk(value);
}

void put_real(proto::ReplyWriter& reply, std::string_view key, double value) {
  reply.bulk(key);
  // Four digits: what lies behind them is noise, and different at each look.
  reply.real(std::round(value * 1e4) / 1e4);
}

std::string_view reason_of(const BatchStatus& status, const QueueView& view, bool is_over,
                           const HandlerDirectory::Entry* entry) {
  if (is_over) return "ended";
  if (status.running > 0) return "running";
  if (status.paused) return "paused";
  if (has(status.holds, Hold::handler)) return "handler-missing";
  if (has(status.holds, Hold::batches)) return "after-batch";
  if (has(status.holds, Hold::delay)) return "delayed";
  if (status.queued == 0) return "open-and-empty";
  if (status.waiting != 0 && status.waiting == status.queued) return "delayed";
  if (view.at_slots) return "running";
  if (entry != nullptr && entry->concurrency != 0) {
    if (entry->is_at_rate && entry->is_at_rate()) return "rate-limited";
    // Who is next waits for a slot and for nothing else.
    if (view.ahead == 0) return "handler-at-limit";
  }
  return "waiting-its-turn";
}

// Jobs a second, from what a job has cost and what the batch got of the lane lately; before it got anything,
// from its due.
double rate_of(const QueueView& view, std::uint32_t workers) {
  if (view.job_cost.count() <= 0) return 0;
  const double fraction = view.received > 0.001 ? view.received : view.share;
  return fraction * workers * 1e9 / static_cast<double>(view.job_cost.count());
}

}  // namespace

void explain_command(Session& session, proto::Command& command) {
  BatchRecord* record = batch_of(session, command.arguments[1]);
  if (record == nullptr) return;
  const bool is_over = record->is_over();
  const BatchStatus status = record->status();
  const QueueView view =
      is_over ? QueueView{} : record->lane->ring().view(record->ring_queue(), steady_now());
  const HandlerDirectory::Entry* const entry = session.server().handlers().find(record->handler().name());
  const bool has_slots = entry != nullptr && entry->concurrency != 0;
  const double rate = rate_of(view, has_slots ? entry->concurrency : session.server().pool().workers());
  const std::uint64_t left = status.queued + status.running;
  // How long a batch waits for others, or for a command, nobody knows; for its start, the clock does.
  const bool is_known =
      rate > 0 && status.state != BatchState::open && (status.holds & ~static_cast<Holds>(Hold::delay)) == 0;
  const auto until_start = has(status.holds, Hold::delay)
                               ? record->start_at - std::chrono::steady_clock::now()
                               : Instant::duration(0);
  const double start_ms = std::max(0.0, std::chrono::duration<double, std::milli>(until_start).count());
  proto::ReplyWriter reply = session.reply();
  reply.map(7);
  put(reply, "state", to_string(status.state));
  put(reply, "reason", reason_of(status, view, is_over, entry));
  put(reply, "ahead", view.ahead);
  put_real(reply, "share", view.share);
  put_real(reply, "received", view.received);
  put_real(reply, "jobs_per_second", rate);
  reply.bulk("eta_ms");
  reply.integer(is_over    ? 0
                : is_known ? std::llround(start_ms + static_cast<double>(left) / rate * 1000)
                           : -1);
}

void handlers_command(Session& session, proto::Command&) {
  const auto& entries = session.server().handlers().entries();
  const auto may_use = [&user = session.user()](const auto& item) { return user.may_use(item.first); };
  proto::ReplyWriter reply = session.reply();
  reply.array(static_cast<std::size_t>(std::ranges::count_if(entries, may_use)));
  for (const auto& [name, entry] : entries | std::views::filter(may_use)) {
    reply.map(4);
    put(reply, "name", name);
    put(reply, "kind", entry.kind);
    put(reply, "description", entry.handler.description());
    put(reply, "concurrency", entry.concurrency != 0 ? entry.concurrency : session.server().pool().workers());
  }
}

void tenants_command(Session& session, proto::Command&) {
  // Of a tenant that is in several lanes: the sums, and the largest fractions.
  std::map<std::string, TenantView> tenants;
  const User& user = session.user();
  TenantView& own = tenants[user.name()];  // is always there, also before its first batch
  own.tenant = user.name();
  const auto& weights = session.server().users().weights();
  if (const auto weight = weights.find(user.name()); weight != weights.end()) own.weight = weight->second;
  for (const Lane* lane : session.server().lanes()) {
    for (const TenantView& view : lane->ring().snapshot(0, steady_now()).tenants) {
      if (!user.is_admin() && view.tenant != user.name()) continue;
      TenantView& sum = tenants[view.tenant];
      sum.tenant = view.tenant;
      sum.weight = view.weight;
      sum.queues += view.queues;
      sum.queued += view.queued;
      sum.executors += view.executors;
      sum.busy += view.busy;
      sum.share = std::max(sum.share, view.share);
      sum.received = std::max(sum.received, view.received);
    }
  }
  proto::ReplyWriter reply = session.reply();
  reply.array(tenants.size());
  for (const auto& [name, view] : tenants) {
    reply.map(8);
    put(reply, "tenant", view.tenant);
    put(reply, "weight", view.weight);
    put(reply, "batches", view.queues);
    put(reply, "queued", view.queued);
    put(reply, "running", view.executors);
    put(reply, "busy_us", static_cast<std::uint64_t>(view.busy.count() / 1000));
    put_real(reply, "share", view.share);
    put_real(reply, "received", view.received);
  }
}

void workers_command(Session& session, proto::Command&) {
  const std::vector<WorkerSnapshot> workers = session.server().pool().snapshot();
  proto::ReplyWriter reply = session.reply();
  reply.array(workers.size());
  for (const WorkerSnapshot& worker : workers) {
    reply.map(8);
    put(reply, "worker", worker.worker);
    put(reply, "queue_depth", worker.queue_depth);
    put(reply, "executed", worker.jobs);
    put(reply, "steals", worker.steals);
    put(reply, "steal_attempts", worker.steal_attempts);
    put(reply, "stolen", worker.stolen);
    put(reply, "parks", worker.parks);
    put(reply, "busy_us", worker.busy_ns / 1000);
  }
}

}  // namespace locksley::daemon

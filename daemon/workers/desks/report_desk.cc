#include "daemon/workers/desks/report_desk.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <set>

namespace locksley::daemon {

OutLease* ReportDesk::find_lease(RemoteWorker& worker, const LeaseName& name) {
  OutLease* const out = leases_.find(worker, name);
  if (out == nullptr) error(worker, "LOST the lease is gone; nothing was recorded");
  return out;
}

void ReportDesk::settle(RemoteWorker& worker, const proto::ArgumentList& arguments) {
  const auto command = parse_settle(arguments);
  if (!command) return error(worker, command.error());
  OutLease* const out = find_lease(worker, command->lease);
  if (out == nullptr) return;
  const IndexRange range = out->lease.range();
  if (command->jobs.low < range.low || command->jobs.high > range.high) {
    return error(worker, fmt::format("ERR the lease has jobs {} to {}; nothing was recorded", range.low,
                                     range.high - 1));
  }
  const IndexSet& held = out->lease.held();
  const bool splits =
      command->jobs.low > 0 && held.contains(command->jobs.low - 1) && held.contains(command->jobs.high);
  if (splits && held.parts() >= options_.max_parts) {
    return error(worker, fmt::format("TOOBIG the jobs of the lease that have not ended are in {} parts: "
                                     "settle some beside those that have ended",
                                     options_.max_parts));
  }
  if (splits && accounts_.room(&WorkerUse::splits, worker.account.use()) == 0) {
    return error(worker, fmt::format("TOOBIG the jobs of all leases of the user that have not "
                                     "ended are in {} parts more than there are "
                                     "leases: settle some beside those that have ended",
                                     worker.account.use().splits));
  }
  outputs_.resize(command->jobs.size());
  arguments.fetch(SettleCommand::kFirstOutput, outputs_);
  const std::uint64_t recorded =
      out->lease.end_jobs(command->status, command->jobs.low, outputs_, leases_.losses());
  const std::uint64_t left = out->lease.held().size();
  worker.jobs += recorded;
  if (recorded != 0) {
    worker.note_run(*out, clock_.now());
    out->timeout.job_ended(clock_.now());
    out->reported.settled();
    out->has_crashed = command->status == JobStatus::kCrashed;
  }
  if (left == 0) {
    leases_.end(worker, *out, LeaseEnd::kSettled);
  } else if (recorded != 0) {
    worker.show_running(*out);
    worker.count_splits(*out);
    orders_.shorten(worker, *out);
  }
  proto::ReplyWriter reply = connections_.patient_reply(worker.connection, host_.last_write(), clock_.now());
  reply.array(2);
  reply.integer(static_cast<std::int64_t>(recorded));
  reply.integer(static_cast<std::int64_t>(left));
}

void ReportDesk::yield(RemoteWorker& worker, const proto::ArgumentList& arguments) {
  const auto command = parse_yield(arguments);
  if (!command) return error(worker, command.error());
  OutLease* const out = find_lease(worker, command->lease);
  if (out == nullptr) return;
  out->save_notes();
  const bool is_ordered = orders_.asks_for(*out);
  const std::uint32_t in_front = worker.slots.in_front(out->occupation);
  const bool has_begun_none =
      !out->reported.has_begun() && out->reported.is_complete() && out->begun(in_front) == 0;
  note_answer(worker, *out, command->from, in_front);
  out->lease.set_started(out->begun(in_front));
  const std::uint64_t held = out->lease.held().size();
  const std::uint64_t returned = out->lease.give_back(command->from);
  stats_.yielded_jobs += returned;
  out->orders.end_cut();
  if (out->lease.held().empty()) {
    // A worker that gives jobs back without an order gives back jobs that it has not begun.
    if (!out->reported.has_begun() && !is_ordered) {
      out->untouched = OutLease::Untouched::kUnasked;
      worker.slots.give_way(out->occupation);
    } else if (is_ordered && has_begun_none && returned == held) {
      out->untouched = OutLease::Untouched::kHeldUp;
    }
    leases_.end(worker, *out, LeaseEnd::kSettled);
  } else {
    worker.show_running(*out);
    worker.count_splits(*out);
  }
  connections_.reply(worker.connection).integer(static_cast<std::int64_t>(returned));
}

void ReportDesk::note_answer(RemoteWorker& worker, OutLease& out, std::uint64_t from,
                             std::uint32_t in_front) {
  const std::optional<LeaseOrders::Cut>& cut = out.orders.cut;
  if (!cut || !cut->is_for_idle_worker) return;
  const bool has_begun_none = out.reported.is_complete() && out.begun(in_front) == 0;
  if (has_begun_none && in_front != 0 && from <= out.lease.held().at(0)) worker.held_up = clock_.now();
  if (from <= cut->at) return;
  // The order asked for more, so the worker yields from the first job that has not started. Notes
  // that, so as not to ask for started jobs again.
  out.reported.kept_below(std::min(from, out.lease.range().high));
}

void ReportDesk::beat(RemoteWorker& worker, const proto::ArgumentList& arguments) {
  // BEATs charge leases no more often than this, since charging one takes some 100 ns. A guess: the
  // shortest quantum().
  constexpr std::chrono::milliseconds kChargedByBeats{10};
  const auto command = parse_beat(arguments, worker.slots.size() * SlotTimes::kMostLeases);
  if (!command) return error(worker, command.error());
  worker.beaten = clock_.now();
  std::vector<LeaseName> gone;
  // Each lease once, however often it is named: the time to show its jobs grows with its width.
  std::set<OutLease*> told;
  std::set<OutLease*> risen;
  std::set<OutLease*> corrected;  // jobs may be shown that have not begun
  for (const auto& [name, next] : command->next) {
    OutLease* const out = leases_.find(worker, name);
    if (out == nullptr) {
      gone.push_back(name);
      continue;
    }
    const IndexRange range = out->lease.range();
    const auto beat = out->reported.beaten(std::clamp(next, range.low, range.high));
    if (beat.has_risen) risen.insert(out);
    // After the first report, jobs are shown only once they have begun.
    if (beat.is_corrected) corrected.insert(out);
    told.insert(out);
  }
  for (OutLease* const out : told) {
    // No job of the lease runs: its time-out counts from the next start, which the worker has yet
    // to report. If it does not answer a CUT, the lease goes back at the time-out.
    if (!out->reported.has_begun_any(out->lease.held()) && !out->orders.is_cut())
      out->timeout.nothing_runs(clock_.now());
  }
  for (OutLease* const out : corrected) worker.show_running(*out);
  // Of the two leases of a slot, the one in front has run first.
  std::vector<OutLease*> run(risen.begin(), risen.end());
  std::ranges::partition(run,
                         [&](const OutLease* out) { return worker.slots.in_front(out->occupation) != 0; });
  for (OutLease* const out : run) worker.note_run(*out, clock_.now());
  for (OutLease* const out : told) worker.show_begun(*out);
  if (clock_.now() - worker.charged >= kChargedByBeats) leases_.charge(worker);
  orders_.shorten_leases(worker);
  orders_.reply_to_beat(worker, gone);
}

void ReportDesk::note(RemoteWorker& worker, const proto::ArgumentList& arguments) {
  const auto command = parse_note(arguments, options_.limits);
  if (!command) return error(worker, command.error());
  OutLease* const out = find_lease(worker, command->lease);
  if (out == nullptr) return;
  if (!out->lease.held().contains(command->index))
    return error(worker, "LOST the lease does not hold that job");
  out->reported.noted(command->index);
  if (out->timeout.job_runs(clock_.now())) {
    if (const auto at = clock_.late_at(worker, *out)) clock_.arm(worker, *at);
  }
  // A NOTE about a job that may not be shown is acknowledged, but not kept.
  const bool may_be_shown =
      out->shown.contains(command->index) || accounts_.room(&WorkerUse::shown, worker.account.use()) != 0;
  if (ShownJob* const job = may_be_shown ? out->shown_job(command->index, worker.name) : nullptr) {
    worker.count_shown(*out);
    if (command->text) job->set_note(*command->text);
    if (command->progress) job->set_progress(*command->progress);
    if (command->exit_status) job->set_exit_status(*command->exit_status);
    if (!command->log.empty()) job->add_log(command->log);
  }
  connections_.reply(worker.connection).ok();
}

}  // namespace locksley::daemon

// A daemon that does something, as `top` sees it.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "daemon/cli/top/model.h"

namespace locksley::testing {

inline client::BatchStatus batch_status(const std::string& id, const std::string& state, std::uint64_t jobs,
                                        std::uint64_t ok, std::int64_t submitted_at) {
  client::BatchStatus status;
  status.id = id;
  status.handler = "echo";
  status.tenant = "anna";
  status.state = state;
  status.weight = 1;
  status.jobs = jobs;
  status.ok = ok;
  status.queued = jobs - ok;
  status.submitted_at = submitted_at;
  return status;
}

inline client::Explanation explanation(const std::string& reason, double share = 0.5,
                                       double received = 0.25) {
  client::Explanation why;
  why.reason = reason;
  why.share = share;
  why.received = received;
  return why;
}

// `second` 0 and 1 are two looks, one second apart, at a daemon with so many workers.
inline cli::TopSnapshot snapshot_at(int second, std::size_t workers = 4) {
  const auto later = static_cast<std::uint64_t>(second);
  cli::TopSnapshot shot;
  shot.at = std::chrono::steady_clock::time_point(std::chrono::seconds(1000 + second));
  shot.server.version = "0.1.0";
  shot.server.user = "anna";
  shot.server.groups = "submit,read,control,admin";
  shot.server.store = "ready";
  shot.server.process_id = 42;
  shot.server.uptime_s = 7384 + later;
  shot.server.clients = 3;
  shot.server.max_clients = 10000;
  shot.server.active_batches = 4;
  shot.server.queued_jobs = 1'234'567;
  shot.server.max_queued_jobs = 100'000'000;
  shot.server.queued_bytes = 12'900'000;
  shot.server.max_queued_bytes = std::uint64_t{8} << 30;
  shot.server.retained_batches = 2;
  shot.server.ended_jobs = 5000 + 812'000 * later;
  shot.server.store_bytes = 1'300'000'000;
  shot.server.store_errors = 0;
  shot.lanes = {{"cpu", workers, workers, 1'200'000, 2}, {"resize", 2, 1, 40, 1}, {"fetch", 8, 0, 0, 0}};
  for (std::size_t i = 0; i < workers; ++i) {
    client::WorkerInfo worker;
    worker.worker = i;
    worker.queue_depth = i * 7;
    worker.busy_us = 1'000'000 + later * (i * 1'000'000 / workers);
    worker.steals = 10 + later * i;
    shot.workers.push_back(worker);
  }
  client::TenantInfo anna;
  anna.tenant = "anna";
  anna.weight = 3;
  anna.queued = 1'200'000;
  anna.running = 3;
  anna.share = 0.75;
  anna.received = 0.742;
  client::TenantInfo bert;
  bert.tenant = "bert";
  bert.weight = 1;
  bert.queued = 34'567;
  bert.running = 1;
  bert.share = 0.25;
  bert.received = 0.12;
  shot.tenants = {anna, bert};
  shot.batches = {batch_status("nightly", "running", 1'000'000, 250'000 + 50'000 * later, 5000),
                  batch_status("thumbs", "running", 400, 100, 4000),
                  batch_status("later", "queued", 10, 0, 3000),
                  batch_status("stream", "open", 7, 7, 2000),
                  batch_status("old", "done", 20, 18, 1000),
                  batch_status("gone", "cancelled", 5, 2, 500)};
  shot.batches[0].name = "nightly checksums of everything";
  shot.batches[0].running = 3;
  shot.batches[0].weight = 3;
  shot.batches[1].tenant = "bert";
  shot.batches[1].handler = "resize";
  shot.batches[1].failed = 3;
  shot.batches[1].running = 1;
  shot.batches[4].failed = 2;
  shot.batches[5].cancelled = 3;
  shot.explanations = {{"anna/nightly", explanation("running", 0.75, 0.742)},
                       {"bert/thumbs", explanation("running")},
                       {"anna/later", explanation("after-batch")},
                       {"anna/stream", explanation("open-and-empty")}};
  shot.explanations["anna/later"].is_paused = false;
  shot.explanations["anna/later"].eta_ms = -1;
  return shot;
}

// So many remote workers, of which the last has lost most.
inline std::vector<client::MachineInfo> machines_of(std::size_t count) {
  std::vector<client::MachineInfo> machines;
  for (std::size_t i = 0; i < count; ++i) {
    client::MachineInfo machine;
    machine.name = "render-" + std::to_string(i);
    machine.slots = 64;
    machine.busy = 5 * i;
    machine.leases = 11 * i;
    machine.lost = i + 1 == count ? 2 : 0;
    machine.rtt_us = 430 * i * i;
    machine.jobs = 12'345 * i;
    machines.push_back(std::move(machine));
  }
  return machines;
}

// Of the batch `thumbs`, with a failure whose text comes from somebody else's program.
inline cli::TopDetail detail_of_thumbs() {
  cli::TopDetail detail;
  detail.key = "bert/thumbs";
  detail.status = snapshot_at(1).batches[1];
  detail.explanation = explanation("running", 0.25, 0.12);
  detail.failures = {{17, "error", "no such file: a\x1b[2Jb\nc"}, {1800, "timeout", "took longer than 30s"}};
  detail.rows_looked_at = 2000;
  return detail;
}

inline cli::TopModel model_of(std::size_t workers = 4, std::size_t machines = 0) {
  cli::TopModel model;
  model.take(snapshot_at(0, workers));
  cli::TopSnapshot shot = snapshot_at(1, workers);
  shot.machines = machines_of(machines);
  model.take(std::move(shot));
  return model;
}

}  // namespace locksley::testing

// The replies of the commands as plain values, and the functions that read them. Any thread;
// nothing blocks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proto/clients/cpp/error.h"
#include "proto/reply.h"

namespace locksley::client {

// The names are those of PROTOCOL.md. A field that an older daemon does not send is 0 or empty;
// additional fields of a newer daemon are ignored.

// A batch, as STATUS and LIST have it.
struct BatchStatus {
  std::string id, name, handler, tenant, customer, state;
  std::uint64_t slots = 0;  // most jobs at once; 0: no bound
  std::uint64_t weight = 0, jobs = 0, queued = 0, running = 0, ok = 0, failed = 0, cancelled = 0, retried = 0;
  std::uint64_t retry_rounds = 0;
  std::int64_t submitted_at = 0, started_at = 0, finished_at = 0;  // Unix milliseconds; 0: not yet

  bool is_over() const { return state == "done" || state == "cancelled"; }
  std::uint64_t ended() const { return ok + failed + cancelled; }
  bool is_all_ok() const { return state == "done" && ok == jobs; }
};

// Why a batch does not run faster, as EXPLAIN has it. `share` and `received` are fractions of its
// lane, 0 to 1.
struct Explanation {
  std::string state, reason;
  bool is_paused = false;
  std::uint64_t ahead = 0;  // batches that will be served before it
  double share = 0, received = 0, jobs_per_second = 0;
  std::int64_t eta_ms = -1;  // -1: unknown
};

// One job, as JOB has it.
struct JobInfo {
  std::uint64_t index = 0, attempt = 0, duration_us = 0, log_bytes = 0;
  std::string status, worker, note, output;
  std::int64_t started_at = 0, finished_at = 0;  // Unix milliseconds; 0: not yet
  std::optional<std::int64_t> progress;          // per cent
  std::optional<std::int64_t> exit_status;       // of a command that has ended
  std::optional<std::string> payload;            // none: it is not kept any more

  bool is_over() const { return status != "queued" && status != "running"; }
};

// A job that runs, as RUNNING lists it.
struct RunningJob {
  std::string id;
  std::uint64_t index = 0, attempt = 0, since_ms = 0;  // for how long it has run
  std::string worker, note;
  std::optional<std::int64_t> progress;  // per cent
};

// A part of what a job wrote to standard error.
struct LogPart {
  std::uint64_t next = 0;  // the offset of what follows it
  std::string bytes;
};

// A handler, as HANDLERS lists it.
struct HandlerInfo {
  std::string name, kind, description, lane;
  std::uint64_t concurrency = 0, processes = 0;
};

// A user with what it has in the lanes, as TENANTS lists it. `share`, `received`: fractions of a
// lane, 0 to 1. `busy_us`: since the daemon's start.
struct TenantInfo {
  std::string tenant;
  std::uint64_t weight = 0, batches = 0, queued = 0, running = 0, busy_us = 0;
  double share = 0, received = 0;
};

// A customer of a user: its settings, and what it has in the lanes, as CUSTOMER GET has it.
struct CustomerInfo {
  std::string tenant, customer;
  std::string rate;  // such as 20/s; "0": no limit
  std::uint64_t weight = 0, slots = 0, max_jobs = 0, batches = 0, jobs = 0, queued = 0, running = 0;
  bool is_set = false;  // it has settings of its own
  double share = 0, received = 0;
};

// A page of CUSTOMER LIST.
struct CustomerList {
  std::uint64_t next_cursor = 0;  // 0: there are no more
  std::vector<CustomerInfo> customers;
};

// A thread of the pool, as WORKERS lists it.
struct WorkerInfo {
  std::uint64_t worker = 0, queue_depth = 0, executed = 0, steals = 0, steal_attempts = 0, stolen = 0,
                parks = 0, busy_us = 0,
                turn_us = 0;  // of the work in progress, which busy_us does not include yet; 0: idle
};

// A remote worker.
struct MachineInfo {
  std::string name, user;
  std::uint64_t slots = 0, busy = 0, leases = 0, jobs = 0, rtt_us = 0,
                lost = 0;   // leases, since it joined
  std::uint64_t since = 0;  // ms since 1970
  std::vector<std::string> handlers;
};

// What WORKERS lists.
struct WorkerList {
  std::vector<WorkerInfo> pool;
  std::vector<MachineInfo> machines;
};

// A page of LIST.
struct BatchList {
  std::uint64_t next_cursor = 0;  // 0: there are no more
  std::vector<BatchStatus> batches;
};

// The result of one job. The views are valid only while the visitor runs.
struct ResultRow {
  std::uint64_t index;
  std::string_view status;
  std::string_view output;  // or the error text
};

// The result of one job, with its own bytes.
struct JobResult {
  std::string status;
  std::string output;
};

// Each fails with kProtocol if the reply does not have the shape of the command's reply.
Expected<BatchStatus> to_status(const proto::Reply& reply);
Expected<Explanation> to_explanation(const proto::Reply& reply);
Expected<JobInfo> to_job(const proto::Reply& reply);
Expected<std::vector<RunningJob>> to_running(const proto::Reply& reply);
Expected<LogPart> to_log_part(const proto::Reply& reply);
Expected<BatchList> to_batch_list(const proto::Reply& reply);
Expected<std::vector<HandlerInfo>> to_handlers(const proto::Reply& reply);
Expected<std::vector<TenantInfo>> to_tenants(const proto::Reply& reply);
Expected<CustomerInfo> to_customer(const proto::Reply& reply);
Expected<CustomerList> to_customer_list(const proto::Reply& reply);
Expected<WorkerList> to_workers(const proto::Reply& reply);
Expected<std::vector<JobResult>> to_job_results(const proto::Reply& reply);
Expected<std::uint64_t> to_count(const proto::Reply& reply);
Expected<std::string> to_text(const proto::Reply& reply);

}  // namespace locksley::client

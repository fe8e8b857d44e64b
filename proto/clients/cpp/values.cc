#include "proto/clients/cpp/values.h"

namespace locksley::client {
namespace {

using proto::Reply;

std::unexpected<ClientError> unexpected_shape(std::string_view expected) {
  return client_error(ClientError::Kind::kProtocol, "the reply is not " + std::string(expected));
}

void take(const Reply& map, std::string_view key, std::string& into) {
  if (const Reply* value = map.find(key); value != nullptr && value->is_string()) into = value->text;
}

void take(const Reply& map, std::string_view key, std::int64_t& into) {
  if (const Reply* value = map.find(key); value != nullptr) into = value->to_integer().value_or(into);
}

void take(const Reply& map, std::string_view key, std::uint64_t& into) {
  const Reply* value = map.find(key);
  const auto number = value == nullptr ? std::nullopt : value->to_integer();
  if (number && *number >= 0) into = static_cast<std::uint64_t>(*number);
}

void take(const Reply& map, std::string_view key, double& into) {
  if (const Reply* value = map.find(key); value != nullptr) into = value->to_real().value_or(into);
}

void take(const Reply& map, std::string_view key, std::optional<std::int64_t>& into) {
  if (const Reply* value = map.find(key); value != nullptr) into = value->to_integer();
}

// Converts an array of maps, each by `one`.
template <class Value>
Expected<std::vector<Value>> to_list(const Reply& reply, Value (*one)(const Reply&)) {
  if (!reply.is_aggregate()) return unexpected_shape("an array");
  std::vector<Value> values;
  values.reserve(reply.elements.size());
  for (const Reply& element : reply.elements) {
    if (!element.is_aggregate()) return unexpected_shape("an array of maps");
    values.push_back(one(element));
  }
  return values;
}

// A page of a list: its elements, each by `one`, and the cursor of the next page.
template <class Value>
struct Page {
  std::uint64_t next_cursor = 0;
  std::vector<Value> values;
};
// `shape` is for the error.
template <class Value>
Expected<Page<Value>> to_page(const Reply& reply, std::string_view shape,
                              Expected<Value> (*one)(const Reply&)) {
  if (reply.type != Reply::Type::kArray || reply.elements.size() != 2) return unexpected_shape(shape);
  const auto cursor = reply.elements[0].to_integer();
  if (!cursor || *cursor < 0 || !reply.elements[1].is_aggregate()) return unexpected_shape(shape);
  Page<Value> page{.next_cursor = static_cast<std::uint64_t>(*cursor), .values = {}};
  for (const Reply& element : reply.elements[1].elements) {
    auto value = one(element);
    if (!value) return std::unexpected(std::move(value.error()));
    page.values.push_back(std::move(*value));
  }
  return page;
}

}  // namespace

Expected<BatchStatus> to_status(const Reply& reply) {
  if (!reply.is_aggregate()) return unexpected_shape("a batch's status");
  BatchStatus status;
  take(reply, "id", status.id);
  take(reply, "name", status.name);
  take(reply, "handler", status.handler);
  take(reply, "tenant", status.tenant);
  take(reply, "customer", status.customer);
  take(reply, "slots", status.slots);
  take(reply, "state", status.state);
  take(reply, "weight", status.weight);
  take(reply, "jobs", status.jobs);
  take(reply, "queued", status.queued);
  take(reply, "running", status.running);
  take(reply, "ok", status.ok);
  take(reply, "failed", status.failed);
  take(reply, "cancelled", status.cancelled);
  take(reply, "retried", status.retried);
  take(reply, "retry_rounds", status.retry_rounds);
  take(reply, "submitted_at", status.submitted_at);
  take(reply, "started_at", status.started_at);
  take(reply, "finished_at", status.finished_at);
  if (status.id.empty() || status.state.empty()) return unexpected_shape("a batch's status");
  return status;
}

Expected<Explanation> to_explanation(const Reply& reply) {
  if (!reply.is_aggregate()) return unexpected_shape("an explanation");
  Explanation explanation;
  take(reply, "state", explanation.state);
  take(reply, "reason", explanation.reason);
  std::uint64_t paused = 0;
  take(reply, "paused", paused);
  explanation.is_paused = paused != 0;
  take(reply, "ahead", explanation.ahead);
  take(reply, "share", explanation.share);
  take(reply, "received", explanation.received);
  take(reply, "jobs_per_second", explanation.jobs_per_second);
  take(reply, "eta_ms", explanation.eta_ms);
  if (explanation.reason.empty()) return unexpected_shape("an explanation");
  return explanation;
}

Expected<JobInfo> to_job(const Reply& reply) {
  if (!reply.is_aggregate()) return unexpected_shape("a job");
  JobInfo job;
  take(reply, "index", job.index);
  take(reply, "status", job.status);
  take(reply, "attempt", job.attempt);
  take(reply, "started_at", job.started_at);
  take(reply, "finished_at", job.finished_at);
  take(reply, "duration_us", job.duration_us);
  take(reply, "log_bytes", job.log_bytes);
  take(reply, "worker", job.worker);
  take(reply, "progress", job.progress);
  take(reply, "exit_status", job.exit_status);
  take(reply, "note", job.note);
  take(reply, "output", job.output);
  if (const Reply* payload = reply.find("payload"); payload != nullptr && payload->is_string())
    job.payload = payload->text;
  if (job.status.empty()) return unexpected_shape("a job");
  return job;
}

Expected<std::vector<RunningJob>> to_running(const Reply& reply) {
  constexpr std::size_t kMembers = 7;  // those that are known here
  if (!reply.is_aggregate()) return unexpected_shape("an array of jobs");
  std::vector<RunningJob> jobs;
  jobs.reserve(reply.elements.size());
  for (const Reply& row : reply.elements) {
    if (!row.is_aggregate() || row.elements.size() < kMembers) return unexpected_shape("an array of jobs");
    const auto number = [&row](std::size_t member) {
      return static_cast<std::uint64_t>(row.elements[member].to_integer().value_or(0));
    };
    jobs.push_back({.id = row.elements[0].text,
                    .index = number(1),
                    .attempt = number(2),
                    .since_ms = number(3),
                    .worker = row.elements[4].text,
                    .note = row.elements[6].text,
                    .progress = row.elements[5].to_integer()});
  }
  return jobs;
}

Expected<LogPart> to_log_part(const Reply& reply) {
  if (!reply.is_aggregate() || reply.elements.size() != 2) return unexpected_shape("[next-offset, bytes]");
  const auto next = reply.elements[0].to_integer();
  if (!next || *next < 0 || !reply.elements[1].is_string()) return unexpected_shape("[next-offset, bytes]");
  return LogPart{static_cast<std::uint64_t>(*next), reply.elements[1].text};
}

Expected<BatchList> to_batch_list(const Reply& reply) {
  auto page = to_page(reply, "[cursor, batches]", &to_status);
  if (!page) return std::unexpected(std::move(page.error()));
  return BatchList{.next_cursor = page->next_cursor, .batches = std::move(page->values)};
}

Expected<std::vector<HandlerInfo>> to_handlers(const Reply& reply) {
  return to_list<HandlerInfo>(reply, [](const Reply& map) {
    HandlerInfo info;
    take(map, "name", info.name);
    take(map, "kind", info.kind);
    take(map, "description", info.description);
    take(map, "concurrency", info.concurrency);
    take(map, "lane", info.lane);
    take(map, "processes", info.processes);
    return info;
  });
}

Expected<std::vector<TenantInfo>> to_tenants(const Reply& reply) {
  return to_list<TenantInfo>(reply, [](const Reply& map) {
    TenantInfo info;
    take(map, "tenant", info.tenant);
    take(map, "weight", info.weight);
    take(map, "batches", info.batches);
    take(map, "queued", info.queued);
    take(map, "running", info.running);
    take(map, "busy_us", info.busy_us);
    take(map, "share", info.share);
    take(map, "received", info.received);
    return info;
  });
}

Expected<CustomerInfo> to_customer(const Reply& reply) {
  if (!reply.is_aggregate()) return unexpected_shape("a customer");
  CustomerInfo info;
  take(reply, "tenant", info.tenant);
  take(reply, "customer", info.customer);
  take(reply, "rate", info.rate);
  take(reply, "weight", info.weight);
  take(reply, "slots", info.slots);
  take(reply, "max_jobs", info.max_jobs);
  take(reply, "batches", info.batches);
  take(reply, "jobs", info.jobs);
  take(reply, "queued", info.queued);
  take(reply, "running", info.running);
  std::uint64_t is_set = 0;
  take(reply, "set", is_set);
  info.is_set = is_set != 0;
  take(reply, "share", info.share);
  take(reply, "received", info.received);
  if (info.tenant.empty()) return unexpected_shape("a customer");
  return info;
}

Expected<CustomerList> to_customer_list(const Reply& reply) {
  auto page = to_page(reply, "[cursor, customers]", &to_customer);
  if (!page) return std::unexpected(std::move(page.error()));
  return CustomerList{.next_cursor = page->next_cursor, .customers = std::move(page->values)};
}

Expected<WorkerList> to_workers(const Reply& reply) {
  if (reply.type != Reply::Type::kArray) return unexpected_shape("a list");
  WorkerList list;
  for (const Reply& map : reply.elements) {
    if (!map.is_aggregate()) return unexpected_shape("a list of maps");
    std::string kind;
    take(map, "kind", kind);
    if (kind != "remote") {  // a daemon of an earlier version names no kind
      WorkerInfo& info = list.pool.emplace_back();
      take(map, "worker", info.worker);
      take(map, "queue_depth", info.queue_depth);
      take(map, "executed", info.executed);
      take(map, "steals", info.steals);
      take(map, "steal_attempts", info.steal_attempts);
      take(map, "stolen", info.stolen);
      take(map, "parks", info.parks);
      take(map, "busy_us", info.busy_us);
      take(map, "turn_us", info.turn_us);
      continue;
    }
    MachineInfo& info = list.machines.emplace_back();
    take(map, "worker", info.name);
    take(map, "user", info.user);
    take(map, "slots", info.slots);
    take(map, "busy", info.busy);
    take(map, "leases", info.leases);
    take(map, "jobs", info.jobs);
    take(map, "since", info.since);
    take(map, "rtt_us", info.rtt_us);
    take(map, "lost", info.lost);
    if (const Reply* const handlers = map.find("handlers")) {
      for (const Reply& handler : handlers->elements) info.handlers.push_back(handler.text);
    }
  }
  return list;
}

Expected<std::vector<JobResult>> to_job_results(const Reply& reply) {
  if (reply.type != Reply::Type::kArray) return unexpected_shape("an array of [status, output]");
  std::vector<JobResult> results;
  results.reserve(reply.elements.size());
  for (const Reply& row : reply.elements) {
    if (row.elements.size() != 2 || !row.elements[0].is_string() || !row.elements[1].is_string()) {
      return unexpected_shape("an array of [status, output]");
    }
    results.push_back({row.elements[0].text, row.elements[1].text});
  }
  return results;
}

Expected<std::uint64_t> to_count(const Reply& reply) {
  const auto number = reply.to_integer();
  if (!number || *number < 0) return unexpected_shape("a count");
  return static_cast<std::uint64_t>(*number);
}

Expected<std::string> to_text(const Reply& reply) {
  if (!reply.is_string()) return unexpected_shape("a string");
  return reply.text;
}

}  // namespace locksley::client

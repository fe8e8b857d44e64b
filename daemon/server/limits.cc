// What a batch must keep within to be accepted: the limits that hold for all, and the quotas of its user.
#include <fmt/format.h>
#include <spdlog/logger.h>

#include <algorithm>

#include "daemon/log_line.h"

#include "daemon/server/batches.h"

namespace locksley::daemon {

namespace {

std::unexpected<Batches::Refusal> too_big(std::string_view what, std::uint64_t found, std::string_view limit,
                                          std::uint64_t most) {
  return std::unexpected(fmt::format("TOOBIG {} {}, and {} is {}", what, found, limit, most));
}

bool fits(std::uint64_t more, std::uint64_t there, std::uint64_t most) {
  return more <= most - std::min(most, there);
}

std::string quota(const Tenant& tenant, std::string_view key) {
  return fmt::format("users.{}.{}", tenant.name, key);
}

}  // namespace

Batches::Refusal Batches::queue_full(const Demand& demand, std::string_view limit, std::uint64_t most,
                                     std::uint64_t queued) {
  if (full_lines_.open(std::chrono::steady_clock::now())) {
    LogLine("queue full")
        .with("tenant", demand.tenant.name)
        .with("handler", demand.handler)
        .with("limit", limit)
        .with("most", most)
        .with("unlogged", full_lines_.held_back())
        .write(*log_, spdlog::level::warn);
  }
  return fmt::format("QUEUEFULL {} is {}, and {} are queued: nothing was accepted, try again", limit, most,
                     queued);
}

std::expected<void, Batches::Refusal> Batches::check_limits(const Demand& demand) {
  const config::Limits& limits = config_.limits;
  const auto& [tenant, handler, new_batches, batch_jobs, new_jobs, payloads, is_stored] = demand;
  if (batch_jobs > limits.max_batch_jobs) {
    return too_big("jobs of the batch:", batch_jobs, "limits.max_batch_jobs", limits.max_batch_jobs);
  }
  if (new_jobs > limits.max_queued_jobs) {
    return too_big("jobs of the batch:", new_jobs, "limits.max_queued_jobs", limits.max_queued_jobs);
  }
  std::uint64_t bytes = 0;
  if (payloads != nullptr) {
    bytes = payloads->payload_bytes();
    // Only if all together are over the limit can one of them be.
    if (bytes > limits.max_payload.count) {
      for (const std::string_view payload : *payloads) {
        if (payload.size() > limits.max_payload.count) {
          return too_big("bytes of a payload:", payload.size(), "limits.max_payload",
                         limits.max_payload.count);
        }
      }
    }
    if (!is_stored && bytes > limits.max_queued_bytes.count) {
      return too_big("bytes of the batch:", bytes, "limits.max_queued_bytes", limits.max_queued_bytes.count);
    }
  }
  if (auto within = check_quotas(demand); !within) return within;
  const auto jobs_fit = [&] { return fits(new_jobs, registry_.queued_jobs(), limits.max_queued_jobs); };
  const auto bytes_fit = [&] { return is_stored || payloads == nullptr || has_memory_for(*payloads); };
  // What has ended may not have been heard of yet: STATUS shows it already.
  if (!jobs_fit() || !bytes_fit()) apply_changes();
  if (!jobs_fit()) {
    return std::unexpected(
        queue_full(demand, "limits.max_queued_jobs", limits.max_queued_jobs, registry_.queued_jobs()));
  }
  if (!bytes_fit()) {
    return std::unexpected(queue_full(demand, "limits.max_queued_bytes", limits.max_queued_bytes.count,
                                      registry_.queued_bytes()));
  }
  if (is_stored && !make_room(bytes + kRowBytes)) {
    return std::unexpected(
        queue_full(demand, "store.max_bytes", config_.store.max_bytes.count, stored_bytes_));
  }
  return {};
}

std::expected<void, Batches::Refusal> Batches::check_quotas(const Demand& demand) {
  const Tenant& tenant = demand.tenant;
  const Quotas& quotas = tenant.quotas;
  const std::uint64_t bytes = demand.payloads == nullptr ? 0 : demand.payloads->payload_bytes();
  struct Rule {
    std::string_view key;
    std::string_view what;
    std::uint64_t more;
    std::uint64_t most;
    const std::uint64_t& there;
  };
  const Rule rules[] = {
      {"max_queued_jobs", "jobs of the batch:", demand.new_jobs, quotas.max_queued_jobs, tenant.queued_jobs},
      {"max_queued_bytes", "bytes of the batch:", bytes, quotas.max_queued_bytes, tenant.queued_bytes},
      {"max_batches", "batches:", demand.new_batches, quotas.max_batches, tenant.active_batches},
  };
  bool is_up_to_date = false;
  for (const Rule& rule : rules) {
    if (rule.most == 0 || rule.more == 0) continue;
    if (rule.more > rule.most) return too_big(rule.what, rule.more, quota(tenant, rule.key), rule.most);
    if (fits(rule.more, rule.there, rule.most)) continue;
    // As in check_limits().
    if (!std::exchange(is_up_to_date, true)) apply_changes();
    if (fits(rule.more, rule.there, rule.most)) continue;
    return std::unexpected(queue_full(demand, quota(tenant, rule.key), rule.most, rule.there));
  }
  return {};
}

bool Batches::has_memory_for(const proto::ArgumentList& payloads) const {
  return fits(payloads.payload_bytes(), registry_.queued_bytes(), config_.limits.max_queued_bytes.count);
}

}  // namespace locksley::daemon

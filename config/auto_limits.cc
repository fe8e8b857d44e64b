#include "config/auto_limits.h"

#include <algorithm>
#include <array>

namespace locksley::config {
namespace {

constexpr Bytes kLeastMemory = mebibytes(1);

std::uint64_t whole_mebibytes(std::uint64_t bytes) { return bytes >> 20 << 20; }

void derive(Limit& limit, std::uint64_t value, Bytes most) {
  // Whole mebibytes are easier to read.
  if (limit.is_auto) limit.count = std::clamp(whole_mebibytes(value), kLeastMemory.count, most.count);
}

void derive_half(Limit& limit, std::uint64_t of_all) {
  // Half of 1 is 1, since 0 would mean no limit.
  if (limit.is_auto) limit.count = of_all - of_all / 2;
}

// The I/O thread, and network threads: a quarter of the processors leaves most of them to the
// workers, and four network threads move more than one I/O thread can execute
// (daemon/network/README.md, "What it costs and saves").
std::uint64_t threads_for(std::uint32_t processors) {
  return processors <= 4 ? 1 : 1 + std::min<std::uint64_t>(processors / 4, 4);
}

}  // namespace

void derive_limits(Config& config, const Machine& machine) {
  Limits& limits = config.limits;
  const std::uint64_t memory = machine.memory.count;
  derive(limits.max_queued_bytes, memory / 4, gibibytes(8));
  if (limits.max_queued_bytes.is_auto) {
    limits.max_queued_bytes.count = std::max(limits.max_queued_bytes.count, limits.max_payload.count);
  }
  derive(limits.max_result_bytes, memory / 8, gibibytes(16));
  derive(limits.max_record_bytes, memory / 8, gibibytes(8));
  derive(limits.client_memory, memory / 8, gibibytes(2));
  if (config.store.max_bytes.is_auto)
    config.store.max_bytes.count = whole_mebibytes(machine.disk.count / 4 * 3);
  if (config.listen.threads.is_auto) config.listen.threads.count = threads_for(machine.processors);
  for (auto& [name, user] : config.users) {
    derive_half(user.max_queued_jobs, limits.max_queued_jobs);
    derive_half(user.max_queued_bytes, limits.max_queued_bytes.count);
    // One payload of the largest size fits into each half.
    if (user.max_queued_bytes.is_auto) {
      user.max_queued_bytes.count = std::max(user.max_queued_bytes.count, limits.max_payload.count);
    }
    derive_half(user.max_result_bytes, limits.max_result_bytes.count);
    derive_half(user.max_record_bytes, limits.max_record_bytes.count);
    derive_half(user.max_stored_bytes, config.store.max_bytes.count);
    derive_half(user.client_memory, limits.client_memory.count);
    derive_half(user.max_clients, limits.max_clients);
  }
}

bool has_same_limits_of_all(const Config& a, const Config& b) {
  // What derive_limits() takes for users.
  const auto of = [](const Config& config) {
    const Limits& limits = config.limits;
    return std::array{limits.max_queued_jobs,        limits.max_queued_bytes.count,
                      limits.max_payload.count,      limits.max_result_bytes.count,
                      limits.max_record_bytes.count, config.store.max_bytes.count,
                      limits.client_memory.count,    limits.max_clients};
  };
  return of(a) == of(b);
}

}  // namespace locksley::config

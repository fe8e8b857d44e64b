#pragma once

#include <cstdint>

#include "config/config.h"

namespace locksley::config {

// The resources from which the `auto` limits are computed.
struct Machine {
  Bytes memory;                  // that the process may use
  Bytes disk;                    // that the store may use; 0: unknown, so store.max_bytes limits nothing
  std::uint32_t processors = 1;  // that the process may use
};

// Sets Limit::count of every limit that is `auto`:
//
//   limits.max_queued_bytes   a quarter of the memory, at most 8 GiB, at least limits.max_payload
//   limits.max_result_bytes   an eighth of the memory, at most 16 GiB
//   limits.max_record_bytes   an eighth of the memory, at most 8 GiB
//   limits.client_memory      an eighth of the memory, at most 2 GiB
//   store.max_bytes           three quarters of the disk
//   listen.threads            1 on up to four processors; beyond, one more for each four, up to 5
//   users.NAME.*              half of the limit of all users; 0 (no limit) if that has none. The
//                             daemon lets such a user hold no more than is left to others
//
// Together they leave three eighths of the memory to commands that are still arriving (as much as
// limits.max_queued_bytes again), the store, the handlers and the system. The same machine and the
// same configuration always give the same values.
void derive_limits(Config& config, const Machine& machine);
// Whether users whose limits are `auto` have the same ones in both configurations, for which
// derive_limits() was called.
bool has_same_limits_of_all(const Config& a, const Config& b);

}  // namespace locksley::config

// This daemon as a remote worker, as the configuration says it.
#pragma once

#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "config/config.h"
#include "core/pool/pool.h"
#include "daemon/base/loop/io_thread.h"
#include "daemon/handler_set.h"
#include "daemon/upstream/upstream.h"

namespace locksley::daemon {

// Whether make_upstream() would refuse these settings. Reads the password. The error is a sentence.
// Blocks on the file.
std::expected<void, std::string> check_upstream(const config::Upstream& settings);

// Null: the configuration names no upstream. Reads the password. The error is a sentence. `pool`:
// null if there is none. `refused`: as in Upstream::Parts. main()'s thread; blocks on the file.
std::expected<std::unique_ptr<Upstream>, std::string> make_upstream(
    const config::Config& config, const Pool* pool, HandlerUse& use, std::shared_ptr<spdlog::logger> log,
    std::function<void(const std::string&)> refused = {});

// What the daemon's lanes offer to the upstream: all handlers that are in force, or those that the
// configuration names. The first of the lanes is the pool's.
std::vector<OfferedLane> offered_lanes(const config::Config& config, HandlerSet& handlers,
                                       std::uint32_t pool_workers) LOCKSLEY_REQUIRES(kIoThread);

}  // namespace locksley::daemon

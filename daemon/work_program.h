// A process that only runs jobs of an upstream daemon, by one configuration: `locksley work`.
#pragma once

#include <memory>

#include "config/config.h"
#include "daemon/base/loop/io_thread.h"

namespace spdlog {
class logger;
}

namespace locksley::daemon {

// Joins the upstream with the handlers of the configuration that run programs, and serves until
// SIGTERM or SIGINT: then what runs ends, and the rest is handed back; with a second signal, at
// once. It has no ports, no store and no pool. Blocks; returns the exit code. Throws StartFailure.
int run_work_program(const config::Config& config, std::shared_ptr<spdlog::logger> log)
    LOCKSLEY_REQUIRES(kIoThread);

}  // namespace locksley::daemon

// A process that moves a store and ends: `locksleyd --migrate-to`, and `--undo-migration`.
#pragma once

#include <expected>
#include <memory>
#include <string>
#include <string_view>

#include "config/config.h"

namespace spdlog {
class logger;
}

namespace locksley::daemon {

// The store settings that `target` stands for: a URL of PostgreSQL's, postgresql://… or
// postgres://…, or the absolute path of a folder for the embedded engine. All else is as in
// `settings`. The error is a sentence.
std::expected<config::Store, std::string> store_at(const config::Store& settings, std::string_view target);

// Copies the store of the configuration to `target` (Migration), and says on standard output how to
// go on with it. SIGINT or SIGTERM ends it between two groups, a second one at once; another run
// goes on. Logs its progress every 2 s. Blocks; returns the exit code. To be called while there is
// one thread.
int migrate(const config::Config& config, const std::string& target,
            const std::shared_ptr<spdlog::logger>& log);

// Makes the store of the configuration usable again after it was migrated. Likewise.
int undo_migration(const config::Config& config, const std::shared_ptr<spdlog::logger>& log);

}  // namespace locksley::daemon

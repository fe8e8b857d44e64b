#include "daemon/repair_program.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <expected>
#include <string>

#include "daemon/base/exit_codes.h"
#include "daemon/privileges.h"
#include "daemon/startup.h"
#include "daemon/store/embedded/embedded_engine.h"

namespace locksley::daemon {

int repair(const config::Config& config) {
  if (config.store.engine != config::StoreEngine::kRocksdb) {
    std::fputs(
        "--repair: the store is a database on a server (store.url): repair it with the tools of the "
        "database, or restore a backup of it; --repair is for a store in a folder (store.path)\n",
        stderr);
    return kExitConfig;
  }
  if (config.store.path.empty()) {
    std::fputs("--repair: store.path is empty, so there is nothing to repair\n", stderr);
    return kExitConfig;
  }
  // The daemon could not open files that belong to root.
  const auto privileges = Privileges::make(config.process);
  if (const auto dropped = privileges ? privileges->drop() : std::unexpected(privileges.error()); !dropped) {
    std::fprintf(stderr, "%s\n", dropped.error().c_str());
    return kExitConfig;
  }
  const std::string& store = config.store.path;
  if (const auto why = why_not_as_root(config.store, "--repair")) {
    std::fprintf(stderr, "%s\n", why->c_str());
    return kExitStore;
  }
  const auto repaired = repair_embedded({store, config.store.durability, nullptr});
  if (!repaired) {
    std::fprintf(stderr, "%s\n", repaired.error().what.c_str());
    return exit_code_of(repaired.error());
  }
  std::printf("repaired: %s has %llu batches\n", store.c_str(),
              static_cast<unsigned long long>(repaired->batches));
  if (repaired->has_cut_log) {
    std::printf("lost: what the log of %s had after its first damaged record\n", store.c_str());
  }
  if (!repaired->aside.empty()) {
    std::printf("lost: what these tables had, which could not be read and are now in %s/lost: %s\n",
                store.c_str(), fmt::format("{}", fmt::join(repaired->aside, ", ")).c_str());
  }
  return repaired->is_whole() ? kExitOk : kExitDataError;
}

}  // namespace locksley::daemon

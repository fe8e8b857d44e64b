#include <fmt/format.h>

#include <memory>
#include <string>
#include <utility>

#include "daemon/store/postgres/postgres_engine.h"
#include "daemon/store/postgres/server_engine.h"

namespace locksley::daemon {

OpenEngine postgres_engine(PostgresOptions options) {
  return [options = std::move(options)](
             const EngineOptions& engine) -> std::expected<std::unique_ptr<Engine>, StoreRefusal> {
    auto opened = ServerEngine::open(engine, options);
    if (!opened) return std::unexpected(StoreRefusal{std::move(opened.error())});
    return *std::move(opened);
  };
}

}  // namespace locksley::daemon

#include <fmt/format.h>

#include <memory>
#include <string>
#include <utility>

#include "daemon/store/postgres/postgres_engine.h"
#include "daemon/store/postgres/server_engine.h"

namespace locksley::daemon {

OpenEngine postgres_engine(PostgresOptions options) {
  return [options = std::move(options)](
             const EngineOptions& engine) -> std::expected<std::unique_ptr<Engine>, std::string> {
    return ServerEngine::open(engine, options);
  };
}

}  // namespace locksley::daemon

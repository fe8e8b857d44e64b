// The program of a handler, as the configuration describes it, made ready to be started again and again.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "daemon/process/spawn_request.h"

namespace locksley::daemon {

// What a job tells its process by variables.
struct JobVariables {
  std::string_view batch;
  std::uint64_t index = 0;
  std::uint32_t attempt = 1;
  std::string_view tenant;
  std::string_view trace;  // empty: there is none
};

// Constant after make(): any thread.
class Program {
 public:
  // Looks up what can be looked up once: the user, the folders of programs. The error is for the operator.
  static std::expected<Program, std::string> make(const std::string& handler,
                                                  const config::Handler& settings);

  // To be started for no job in particular.
  const SpawnRequest& request() const { return base_; }
  // To be started for this job. `replacement` takes the place of {} in the arguments.
  SpawnRequest request_for(const JobVariables& job, std::string_view replacement) const;

  const config::Handler& settings() const { return settings_; }

 private:
  config::Handler settings_;
  SpawnRequest base_;
};

}  // namespace locksley::daemon

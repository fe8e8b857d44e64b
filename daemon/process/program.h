// The program of a handler, as the configuration describes it, made ready to be started again and again.
#pragma once

#include <cstddef>
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
  // One process a job, or processes that take job after job.
  enum class Kind : std::uint8_t { command, worker };
  static constexpr std::size_t kKinds = 2;

  // Looks up what can be looked up once: the user, the folders of programs. The error is for the operator.
  static std::expected<Program, std::string> make(const std::string& handler,
                                                  const config::Handler& settings);

  // To be started for no job in particular.
  const SpawnRequest& request() const { return base_; }
  // To be started for this job. `replacement` takes the place of {} in the arguments.
  SpawnRequest request_for(const JobVariables& job, std::string_view replacement) const;

  const config::Handler& settings() const { return settings_; }
  Kind kind() const { return settings_.command.empty() ? Kind::worker : Kind::command; }
  // Whether a process that this one started could as well have been started by the other: the two differ in
  // how many there are, how often, or for how long, at most.
  bool starts_the_same_process_as(const Program& other) const;
  // Whether its file can be found, and run by somebody. The error is for the operator.
  std::expected<void, std::string> look_for_file(const std::string& handler) const;

 private:
  config::Handler settings_;
  SpawnRequest base_;
};

}  // namespace locksley::daemon

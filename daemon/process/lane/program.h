// The program of a handler, ready to be started any number of times.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "daemon/process/keeper/keeper.h"
#include "daemon/process/keeper/spawn_request.h"

namespace locksley::daemon {

// The facts about its job that a process gets as environment variables.
struct JobVariables {
  std::string_view batch;
  std::uint64_t index = 0;
  std::uint32_t attempt = 1;
  std::string_view tenant;
  std::string_view trace;      // empty: there is none
  std::string_view note = {};  // of the last attempt; empty: there is none
  std::string_view lane;
  std::string_view slot;  // its name
};

// The program of a handler of the configuration: its arguments, environment, limits and user.
// Shared by the lane and the slots whose processes it started. Constant after make(): any thread.
// make() and look_up_file() read the file system.
class Program {
 public:
  // One process for each job, or processes that take job after job.
  enum class Kind : std::uint8_t { kCommand, kWorker };
  static constexpr std::size_t kKinds = 2;

  // Looks up the user and the files of `confine`. `users`: the users as whom the keeper may run
  // programs, if it has stayed root although this process has not; empty: the keeper has not. The
  // error is for the operator.
  static std::expected<Program, std::string> make(const std::string& handler, const config::Handler& settings,
                                                  const KeeperUsers& users = {});

  // The request to start a process that has no slot and is not for one job.
  const SpawnRequest& request() const { return base_; }
  // The request to start a process that is not for one job. The slot's name replaces {slot} in the
  // values of `environment`.
  SpawnRequest request_for_slot(std::string_view lane, std::string_view slot) const;
  // The request to start a process for this job. `replacement` replaces {} in the arguments.
  SpawnRequest request_for(const JobVariables& job, std::string_view replacement) const;
  // The same for the handler `exec`, whose payload is the command. The job ends with the error.
  std::expected<SpawnRequest, std::string> request_for_command(const JobVariables& job,
                                                               std::string_view payload) const;

  const config::Handler& settings() const { return settings_; }
  Kind kind() const { return settings_.command.empty() ? Kind::kWorker : Kind::kCommand; }
  // Whether a process of this program could also be a process of `other`: the two differ at most in
  // settings that the daemon reads for each job, for each turn, or at the process's end.
  bool starts_the_same_process_as(const Program& other) const;
  // Whether the program runs as another user than this process. Then this process may be unable to
  // see files that the program's user can see.
  bool is_for_another() const;
  // Checks that the program's file exists and is executable, as far as this process may look. The
  // error is for the operator.
  std::expected<void, std::string> look_up_file(const std::string& handler) const;

 private:
  config::Handler settings_;
  SpawnRequest base_;
  std::vector<std::size_t> with_slot_;  // the variables of base_ whose values have {slot}
};

}  // namespace locksley::daemon

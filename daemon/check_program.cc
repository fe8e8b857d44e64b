#include "daemon/check_program.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "config/dump.h"
#include "daemon/base/exit_codes.h"
#include "daemon/config_source.h"
#include "daemon/handler_set.h"
#include "daemon/http/login.h"
#include "daemon/privileges.h"
#include "daemon/tls/context.h"
#include "daemon/upstream_part.h"

namespace locksley::daemon {
namespace {

// What a start by this user, or the jobs then, would find wrong with process.user and with
// certificates, keys, passwords and folders, one sentence each. The user who checks the
// configuration need not be the one who starts the daemon and may read these files, so none of it
// is an error.
std::vector<std::string> warnings_about_files(const config::Config& config, const ConfigSource& source) {
  std::vector<std::string> warnings;
  const auto refuse = [&](const std::string& problem) {
    warnings.push_back("started by this user, the daemon will refuse this file: " +
                       with_positions(source, {problem}).front());
  };
  if (const auto tls = load_tls(config); !tls) {
    for (const std::string& problem : tls.error()) refuse(problem);
  } else {
    for (const auto& context : {tls->listen, tls->http, tls->workers}) {
      if (context) warnings.insert(warnings.end(), context->warnings().begin(), context->warnings().end());
    }
  }
  if (const auto token = read_http_token(config.http); !token) refuse(token.error());
  if (const auto user = Privileges::make(config.process); !user) refuse(user.error());
  if (const auto checked = check_upstream(config.upstream); !checked) refuse(checked.error());
  const auto warn = [&](std::string problem) {
    warnings.push_back(with_positions(source, {std::move(problem)}).front());
  };
  if (const std::string& file = config.upstream.ca_file; !file.empty() && ::access(file.c_str(), R_OK) != 0) {
    warn(fmt::format("upstream.ca_file: {} cannot be read", file));
  }
  for (const auto& [name, handler] : config.handlers) {
    std::error_code failed;
    if (handler.directory.empty() || std::filesystem::is_directory(handler.directory, failed)) continue;
    warn(fmt::format("handlers.{}.directory: {} is no folder that this user can see", name,
                     handler.directory));
  }
  return warnings;
}

}  // namespace

int check_config(const config::Config& config, const ConfigSource& source) {
  if (const HandlerProblems problems = find_problems(config.handlers); !problems.empty()) {
    for (const std::string& problem : with_positions(source, problems)) {
      std::fprintf(stderr, "%s\n", problem.c_str());
    }
    return kExitConfig;
  }
  for (const std::string& warning : warnings_before_start(config)) {
    std::fprintf(stderr, "warning: %s\n", warning.c_str());
  }
  for (const std::string& warning : warnings_about_files(config, source)) {
    std::fprintf(stderr, "warning: %s\n", warning.c_str());
  }
  std::fputs(config::dump(config::without_password(config)).c_str(), stdout);
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    std::fprintf(stderr, "the configuration cannot be written to standard output: %s\n",
                 std::strerror(errno));
    return kExitIoError;
  }
  return kExitOk;
}

}  // namespace locksley::daemon

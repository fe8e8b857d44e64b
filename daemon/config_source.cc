#include "daemon/config_source.h"

#include <string_view>
#include <utility>

#include "config/load.h"

namespace locksley::daemon {
namespace {

std::vector<std::string> lines_of(const std::vector<config::Problem>& problems,
                                  std::string_view before = {}) {
  std::vector<std::string> result;
  for (const config::Problem& problem : problems) {
    result.push_back(std::string(before) + config::to_string(problem));
  }
  return result;
}

std::vector<config::Problem> without_positions(std::vector<config::Problem> problems) {
  for (config::Problem& problem : problems) {
    problem.file.clear();
    problem.line = problem.column = 0;
  }
  return problems;
}

}  // namespace

std::expected<config::Config, std::vector<std::string>> load(const ConfigSource& source) {
  config::Config config;
  if (!source.file.empty()) {
    auto loaded = config::load_file(source.file);
    if (!loaded)
      return std::unexpected(
          lines_of(source.is_made ? without_positions(std::move(loaded.error())) : loaded.error()));
    config = *std::move(loaded);
  }
  std::vector<std::pair<std::string, std::string>> values;
  std::string options;
  const auto put = [&](std::string_view option, std::string key, const std::optional<std::uint16_t>& port) {
    if (!port) return;
    const std::string text = std::to_string(*port);
    options.append(option).append(" ").append(text).append(": ");
    values.emplace_back(std::move(key), text);
  };
  put("--port", "listen.port", source.port);
  put("--http-port", "http.port", source.http_port);
  if (values.empty()) return config;
  auto changed = config::with_values(config, values);
  if (!changed) return std::unexpected(lines_of(changed.error(), options));
  return *std::move(changed);
}

std::vector<std::string> with_positions(const ConfigSource& source, std::vector<std::string> problems) {
  return source.file.empty() || source.is_made ? problems
                                               : config::with_positions(source.file, std::move(problems));
}

}  // namespace locksley::daemon

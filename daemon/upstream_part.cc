#include "daemon/upstream_part.h"

#include <sys/stat.h>

#include <algorithm>
#include <asio/ip/host_name.hpp>
#include <chrono>
#include <fstream>
#include <utility>

namespace locksley::daemon {
namespace {

using Problem = std::unexpected<std::string>;

// The first line of the file; empty for no file.
std::expected<std::string, std::string> read_password(const std::string& file) {
  std::string password;
  if (file.empty()) return password;
  struct stat status{};
  std::ifstream stream(file);
  if (::stat(file.c_str(), &status) != 0 || !std::getline(stream, password))
    return Problem("upstream.password_file: " + file + ": no password can be read from it");
  if ((status.st_mode & (S_IROTH | S_IWOTH)) != 0) {
    return Problem("upstream.password_file: " + file +
                   ": every user of this machine can read or change it; chmod o-rwx it");
  }
  return password;
}

}  // namespace

std::expected<void, std::string> check_upstream(const config::Upstream& settings) {
  if (settings.url.empty()) return {};
  const auto password = read_password(settings.password_file);
  if (!password) return Problem(password.error());
  if (const auto addresses = upstream_addresses(settings, *password); !addresses)
    return Problem(addresses.error());
  return {};
}

std::expected<std::unique_ptr<Upstream>, std::string> make_upstream(
    const config::Config& config, const Pool* pool, HandlerUse& use, std::shared_ptr<spdlog::logger> log,
    std::function<void(const std::string&)> refused) {
  const config::Upstream& settings = config.upstream;
  if (settings.url.empty()) return nullptr;
  const auto password = read_password(settings.password_file);
  if (!password) return Problem(password.error());
  auto addresses = upstream_addresses(settings, *password);
  if (!addresses) return Problem(addresses.error());
  asio::error_code error;
  const std::string host_name = asio::ip::host_name(error);
  return std::make_unique<Upstream>(Upstream::Parts{.settings = settings,
                                                    .addresses = *std::move(addresses),
                                                    .host_name = error ? "worker" : host_name,
                                                    .use = use,
                                                    .pool = pool,
                                                    .log = std::move(log),
                                                    .refused = std::move(refused)});
}

std::vector<OfferedLane> offered_lanes(const config::Config& config, HandlerSet& handlers,
                                       std::uint32_t pool_workers) {
  const std::vector<std::string>& wanted = config.upstream.handlers;
  std::vector<OfferedLane> offered;
  for (const auto& [name, entry] : handlers.directory().entries()) {
    if (entry.is_held || (!wanted.empty() && std::ranges::find(wanted, name) == wanted.end())) continue;
    // Another daemon must not bring commands of its own.
    if (entry.kind == HandlerKind::kExec) continue;
    auto lane = std::ranges::find(offered, &entry.lane, &OfferedLane::lane);
    if (lane == offered.end()) lane = offered.insert(offered.end(), {.lane = &entry.lane});
    const bool is_pools = lane->lane == handlers.lanes().front();
    // Jobs of these handlers that can run at once.
    lane->slots =
        is_pools ? pool_workers : std::min(entry.lane.parallelism(), lane->slots + entry.concurrency);
    lane->handlers.push_back({.handler = &entry.handler, .gate = entry.gate});
    // Only programs get it.
    const auto settings = config.handlers.find(name);
    if (is_pools || settings == config.handlers.end()) continue;
    lane->grace = std::max(lane->grace, std::chrono::ceil<std::chrono::milliseconds>(settings->second.grace));
  }
  return offered;
}

}  // namespace locksley::daemon

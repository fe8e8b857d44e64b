// What a connection says in the log about an upstream that does not take it, or its results.
#include <spdlog/logger.h>

#include <cstddef>
#include <string_view>

#include "daemon/base/log/log_line.h"
#include "daemon/upstream/upstream_connection.h"

namespace locksley::daemon {
namespace {

// What the port for clients says, or that for HTTP, does not say what is to be done.
std::string_view reason_of(std::string_view trouble) {
  if (trouble == "what it sends is not RESP3")
    return "what it sends is not RESP3, as of a port for HTTP; the port for workers is its workers.port "
           "(7771 by default)";
  if (!trouble.starts_with("ERR unknown command 'JOIN'")) return trouble;
  return "this is its port for clients; the port for workers is its workers.port (7771 by default)";
}

// Lines about failed attempts, from one JOIN to the next. A guess: some for each of some addresses.
constexpr std::size_t kMostLogged = 32;

}  // namespace

void UpstreamConnection::note_dropped() {
  const std::uint64_t leases = link_.stats().dropped_leases - recorded_.dropped_leases;
  if (leases == 0) return;
  LogLine("leases are dropped, and their jobs stop: the upstream daemon has no handlers for them any more")
      .with("upstream", tried_)
      .with("name", parts_.link.name)
      .with("lane", parts_.lane.name())
      .with("leases", leases)
      .with("results", link_.stats().dropped_jobs - recorded_.dropped_jobs)
      .with("bytes", link_.stats().dropped_bytes - recorded_.dropped_bytes)
      .with("reason", reason_of(link_.trouble()))
      .write(*parts_.log, spdlog::level::warn);
}

void UpstreamConnection::log_trouble() {
  if (logged_.size() >= kMostLogged) return;
  if (!logged_.insert(tried_ + " " + link_.trouble()).second) return;
  const bool is_not_there = link_.trouble().starts_with("NOHANDLER");
  const bool is_refused =
      link_.trouble().starts_with("NOPERM") && link_.trouble().contains("to use the handler");
  if (is_not_there || is_refused) {
    // The link tries again: a handler may become remote there. Of those that a person has named, at
    // least one should be.
    LogLine(is_not_there
                ? "the upstream daemon has no handler of this lane for remote workers; it is asked again"
                : "the upstream daemon lets this user run no handler of this lane")
        .with("upstream", tried_)
        .with("name", parts_.link.name)
        .with("lane", parts_.lane.name())
        .with("reason", reason_of(link_.trouble()))
        .write(*parts_.log, parts_.are_handlers_named ? spdlog::level::warn : spdlog::level::info);
    return;
  }
  LogLine("no connection to the upstream daemon")
      .with("upstream", tried_)
      .with("name", parts_.link.name)
      .with("reason", reason_of(link_.trouble()))
      .write(*parts_.log, spdlog::level::warn);
}

}  // namespace locksley::daemon

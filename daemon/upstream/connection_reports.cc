#include "daemon/upstream/connection_reports.h"

#include <spdlog/logger.h>

#include <utility>

#include "daemon/base/log/log_line.h"

namespace locksley::daemon {
namespace {

// The link's trouble; with advice if the link has connected to the upstream's port for HTTP or for
// clients, whose replies do not explain it.
std::string_view reason_of(const UpstreamLink& link) {
  const std::string_view trouble = link.trouble();
  if (link.is_not_resp3())
    return "what it sends is not RESP3, as of a port for HTTP; the port for workers is its workers.port "
           "(7771 by default)";
  if (!trouble.starts_with("ERR unknown command 'JOIN'")) return trouble;
  return "this is its port for clients; the port for workers is its workers.port (7771 by default)";
}

// Lines about failed attempts, from one JOIN to the next. A guess: some for each of some addresses.
constexpr std::size_t kMostLogged = 32;

}  // namespace

ConnectionReports::ConnectionReports(Parts parts) : parts_(std::move(parts)) {}

ConnectionReports::~ConnectionReports() = default;

bool ConnectionReports::report(const UpstreamLink& link) {
  const UpstreamLinkStats stats = link.stats();
  note_dropped(link, stats);
  record(link, stats);
  return note_state(link);
}

void ConnectionReports::note_dropped(const UpstreamLink& link, const UpstreamLinkStats& stats) const {
  const std::uint64_t leases = stats.dropped_leases - recorded_.dropped_leases;
  if (leases == 0) return;
  LogLine("leases are dropped, and their jobs stop: the upstream daemon has no handlers for them any more")
      .with("upstream", tried_)
      .with("name", parts_.name)
      .with("lane", parts_.lane)
      .with("leases", leases)
      .with("results", stats.dropped_jobs - recorded_.dropped_jobs)
      .with("bytes", stats.dropped_bytes - recorded_.dropped_bytes)
      .with("reason", reason_of(link))
      .write(*parts_.log, spdlog::level::warn);
}

void ConnectionReports::record(const UpstreamLink& link, const UpstreamLinkStats& stats) {
  const auto reconnects = [](const UpstreamLinkStats& of) {
    return of.connections == 0 ? 0 : of.connections - 1;
  };
  UpstreamMeter& meter = parts_.meter;
  meter.leases.add(stats.leases - recorded_.leases);
  meter.kept_bytes.add(stats.kept_bytes - recorded_.kept_bytes);
  meter.reconnects.add(reconnects(stats) - reconnects(recorded_));
  meter.jobs.add(stats.settled_jobs - recorded_.settled_jobs);
  meter.lost_leases.add(stats.lost_leases - recorded_.lost_leases);
  recorded_ = stats;
  meter.joined.add(std::uint64_t{link.is_joined()} - std::uint64_t{was_joined_});
}

bool ConnectionReports::note_state(const UpstreamLink& link) {
  const bool has_joined = link.is_joined() && !was_joined_;
  was_joined_ = link.is_joined();
  if (has_joined) note_join(link);
  if (was_joined_ || link.trouble().empty()) return has_joined;
  log_trouble(link);
  const std::string& why = link.trouble();
  const bool is_refused =
      why.starts_with("WRONGPASS ") || why.starts_with("NOAUTH ") || why.starts_with("NOPERM ");
  if (is_refused && !has_ever_joined_ && parts_.refused) parts_.refused(why);
  return has_joined;
}

void ConnectionReports::note_join(const UpstreamLink& link) {
  has_ever_joined_ = true;
  std::string not_served;
  for (const std::string& name : link.joined().not_served)
    not_served += (not_served.empty() ? "" : " ") + name;
  LogLine("joined the upstream daemon")
      .with("upstream", link.address().text())
      .with("name", parts_.name)
      .with("lane", parts_.lane)
      .with("slots", parts_.slots)
      .with("handlers", parts_.handlers - link.joined().not_served.size())
      .with("not_offered", not_served)
      .write(*parts_.log, spdlog::level::info);
  logged_.clear();
  const std::string before = std::exchange(store_, link.joined().store);
  if (before.empty() || store_.empty() || before == store_) return;
  LogLine("the upstream daemon has another store: what was leased from the one before is dropped")
      .with("upstream", link.address().text())
      .with("name", parts_.name)
      .write(*parts_.log, spdlog::level::warn);
}

void ConnectionReports::log_trouble(const UpstreamLink& link) {
  const std::string_view trouble = link.trouble();
  if (logged_.size() >= kMostLogged) return;
  if (!logged_.insert(tried_ + " " + std::string(trouble)).second) return;
  const bool is_not_there = trouble.starts_with("NOHANDLER");
  const bool is_refused = trouble.starts_with("NOPERM") && trouble.contains("to use the handler");
  if (is_not_there || is_refused) {
    // The link tries again: a handler may become remote there. If the configuration names handlers,
    // at least one should be remote: a warning.
    LogLine(is_not_there
                ? "the upstream daemon has no handler of this lane for remote workers; it is asked again"
                : "the upstream daemon lets this user run no handler of this lane")
        .with("upstream", tried_)
        .with("name", parts_.name)
        .with("lane", parts_.lane)
        .with("reason", reason_of(link))
        .write(*parts_.log, parts_.are_handlers_named ? spdlog::level::warn : spdlog::level::info);
    return;
  }
  LogLine("no connection to the upstream daemon")
      .with("upstream", tried_)
      .with("name", parts_.name)
      .with("reason", reason_of(link))
      .write(*parts_.log, spdlog::level::warn);
}

}  // namespace locksley::daemon

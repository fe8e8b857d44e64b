#include "daemon/metrics/server_metrics.h"

#include <string>
#include <utility>

#include "proto/command_table.h"

namespace locksley::daemon {
namespace {

void read_plain(const ServerStats& stats, Families& families) {
  struct Metric {
    const char* name;
    const char* help;
    const OwnedCounter ServerStats::* value;
  };
  static constexpr Metric kGauges[] = {
      {"locksley_connections", "Connections that are open.", &ServerStats::connections},
      {"locksley_blocked_connections", "Connections that wait in a blocking command.", &ServerStats::blocked},
      {"locksley_subscribed_connections", "Connections with a subscription.", &ServerStats::subscribers},
      {"locksley_queued_jobs", "Jobs that were accepted and have not ended.", &ServerStats::queued_jobs},
      {"locksley_queued_bytes", "Payload bytes of batches that have not ended.", &ServerStats::queued_bytes},
      {"locksley_stored_bytes",
       "Bytes of batches in the store: payloads that are still needed, results, rows.",
       &ServerStats::stored_bytes},
      {"locksley_active_batches", "Batches that have not ended.", &ServerStats::active_batches},
      {"locksley_retained_batches", "Batches that have ended and can still be read.",
       &ServerStats::retained_batches},
  };
  static constexpr Metric kCounters[] = {
      {"locksley_connections_accepted_total", "Connections that were accepted.",
       &ServerStats::connections_accepted},
      {"locksley_connections_refused_total",
       "Connections that were refused: too many, or not from this machine.",
       &ServerStats::connections_refused},
      {"locksley_tls_handshakes_total", "TLS handshakes of clients that succeeded.",
       &ServerStats::tls_handshakes},
      {"locksley_tls_handshake_failures_total", "Connections that ended before a TLS handshake succeeded.",
       &ServerStats::tls_failures},
      {"locksley_authentication_failures_total",
       "Logins that were refused, on the wire and by HTTP: wrong password or token, or unknown user.",
       &ServerStats::authentication_failures},
      {"locksley_protocol_errors_total", "Connections that were closed because they broke the protocol.",
       &ServerStats::protocol_errors},
      {"locksley_received_bytes_total", "Bytes received from clients.", &ServerStats::received_bytes},
      {"locksley_sent_bytes_total", "Bytes sent to clients.", &ServerStats::sent_bytes},
      {"locksley_events_published_total", "Events of batches that were published.",
       &ServerStats::events_published},
      {"locksley_slow_clients_dropped_total", "Connections that were dropped because they read too slowly.",
       &ServerStats::slow_clients_dropped},
  };
  for (const Metric& metric : kGauges) {
    Family family = Family::gauge(metric.name, metric.help);
    family.add({}, (stats.*metric.value).get());
    std::move(family).move_to(families);
  }
  for (const Metric& metric : kCounters) {
    Family family = Family::counter(metric.name, metric.help);
    family.add({}, (stats.*metric.value).get());
    std::move(family).move_to(families);
  }
}

}  // namespace

void read_server_metrics(const ServerStats& stats, Families& families) {
  read_plain(stats, families);

  Family longest = Family::gauge("locksley_io_longest_stretch_seconds",
                                 "Most processor time of the I/O thread between two polls, since the start.");
  longest.add({}, seconds_of(stats.stretches.longest_ns.get()));
  std::move(longest).move_to(families);
  Family long_ones =
      Family::counter("locksley_io_long_stretches_total",
                      "Times that the I/O thread worked for more than 2 ms between two polls.");
  long_ones.add({}, stats.stretches.long_ones.get());
  std::move(long_ones).move_to(families);

  // Every known value has a series from the start, at 0: a rate over a series that first appears at
  // 1 would miss that 1.
  Family commands =
      Family::counter("locksley_commands_total", "Commands received, by name; `unknown` for unknown names.");
  for (const proto::CommandSpec& command : proto::commands()) {
    commands.add({{"command", std::string(command.name)}},
                 stats.commands[static_cast<std::size_t>(command.id)].get());
  }
  commands.add({{"command", "unknown"}}, stats.unknown_commands.get());
  std::move(commands).move_to(families);

  Family errors = Family::counter("locksley_command_errors_total", "Error replies, by their code.");
  for (std::size_t code = 0; code < kErrorCodes; ++code) {
    errors.add({{"code", std::string(kErrorCodeNames[code])}}, stats.command_errors[code].get());
  }
  std::move(errors).move_to(families);
  Family full = Family::counter("locksley_queue_full_errors_total",
                                "Error replies QUEUEFULL, by whose limit was reached.");
  for (std::size_t limit = 0; limit < kFullLimits; ++limit) {
    full.add({{"limit", std::string(kFullLimitNames[limit])}}, stats.queue_full_errors[limit].get());
  }
  std::move(full).move_to(families);
}

}  // namespace locksley::daemon

// Reports of a connection to the upstream daemon: to the log, and to its lane's meter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "daemon/upstream/link/upstream_link.h"
#include "daemon/upstream/upstream_meter.h"

namespace spdlog {
class logger;
}

namespace locksley::daemon {

// Compares the link with the last report. Logs a line when it has joined, one for each reason why
// it has not, and one when leases were dropped. Adds the changes to the meter.
//
// A member of the connection; the upstream thread only. Nothing blocks but the logger; nothing
// fails.
class ConnectionReports {
 public:
  struct Parts {
    std::string name;  // of this worker
    std::string lane;
    std::uint32_t slots;
    std::size_t handlers;
    bool are_handlers_named;  // UpstreamConnection::Parts
    UpstreamMeter& meter;
    std::function<void(const std::string&)> refused;  // Upstream::Parts; may be called several times
    std::shared_ptr<spdlog::logger> log;
  };

  explicit ConnectionReports(Parts parts);
  ~ConnectionReports();

  // An attempt to connect to this address begins.
  void connecting_to(std::string address) { tried_ = std::move(address); }
  // After each event. True: the link has joined since the last call.
  bool report(const UpstreamLink& link);

 private:
  // One line about the leases and results that the link has dropped since record().
  void note_dropped(const UpstreamLink& link, const UpstreamLinkStats& stats) const;
  // Adds the differences since the last call to the meter.
  void record(const UpstreamLink& link, const UpstreamLinkStats& stats);
  bool note_state(const UpstreamLink& link);
  void note_join(const UpstreamLink& link);
  // Why there is no connection; each reason once, until the next join.
  void log_trouble(const UpstreamLink& link);

  // Constant.
  const Parts parts_;

  std::string tried_;  // the address of the last attempt
  // Each address with its trouble that was logged since the last JOIN.
  std::set<std::string> logged_;
  std::string store_;  // of the upstream that it joined last
  bool was_joined_ = false;
  bool has_ever_joined_ = false;
  UpstreamLinkStats recorded_;  // what the meter has
};

}  // namespace locksley::daemon

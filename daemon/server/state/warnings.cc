#include "daemon/server/state/warnings.h"

#include <spdlog/logger.h>

#include <chrono>
#include <utility>

#include "daemon/base/time.h"

namespace locksley::daemon {

namespace {
constexpr std::chrono::minutes kMinute{1};
}  // namespace

Warnings::Warnings(std::shared_ptr<spdlog::logger> log)
    : log_(std::move(log)),
      gates_{RateGate(kMinute), RateGate(kMinute), RateGate(kMinute), RateGate(kMinute), RateGate(kMinute),
             RateGate(kMinute), RateGate(kMinute), RateGate(kMinute), RateGate(kMinute)} {}

void Warnings::warn(Warning kind, std::string_view peer, LogLine what) {
  RateGate& gate = gates_[static_cast<std::size_t>(kind)];
  if (gate.open(now())) {
    what.with("peer", peer).with("unlogged", gate.held_back()).write(*log_, spdlog::level::warn);
  }
}

}  // namespace locksley::daemon

#include "daemon/http/pages/health.h"

#include "core/lane/lane_view.h"

namespace locksley::daemon {

std::optional<Nanoseconds> StallDetector::observe(const LaneProgress& progress, Nanoseconds now) {
  const bool moved = progress.claims != claims_ || progress.last_progress != last_progress_;
  claims_ = progress.claims;
  last_progress_ = progress.last_progress;
  if (!progress.claimable || progress.executors >= progress.slots) {
    stalled_since_.reset();
    return std::nullopt;
  }
  if (moved || !stalled_since_) stalled_since_ = now;
  const Nanoseconds lasted = now - *stalled_since_;
  if (lasted <= bound_) return std::nullopt;
  return lasted;
}

std::optional<std::string> Health::trouble(Nanoseconds now) {
  const RingTotals ring = lane_.view().totals();
  const LaneProgress progress{.claimable = lane_.hints().has_work(),
                              .executors = ring.executors,
                              // Reserved workers may stay free beside long jobs.
                              .slots = pool_.workers() - pool_.reserved(),
                              .claims = ring.claims_total,
                              .last_progress = pool_.progress().last_progress.time_since_epoch()};
  const auto stalled = detector_.observe(progress, now);
  if (!stalled) return std::nullopt;
  return "lane " + lane_.name() + " has " + std::to_string(ring.queued) + " jobs queued and " +
         std::to_string(progress.slots - progress.executors) + " workers free, and nothing has moved for " +
         std::to_string(std::chrono::duration_cast<std::chrono::seconds>(*stalled).count()) + " s";
}

std::optional<std::string> Health::unready(Nanoseconds now) const {
  switch (phase()) {
    case Phase::kStarting:
      return "starting";
    case Phase::kDraining:
      return "draining";
    case Phase::kServing:
      break;
  }
  if (refusal_) {
    if (auto reason = refusal_()) return reason;
  }
  const auto since = store_failing_since_ ? store_failing_since_() : std::nullopt;
  if (!since || now - *since < kStoreBound) return std::nullopt;
  return "the store has refused writes for " +
         std::to_string(std::chrono::duration_cast<std::chrono::seconds>(now - *since).count()) + " s";
}

}  // namespace locksley::daemon

#include "core/ring/parts/running_turns.h"

#include <algorithm>

namespace locksley {

Charge RunningTurns::begin(RingQueue& queue, Nanoseconds now) {
  RingSeat& seat = *queue.seat_;
  ++executors_;
  gates_.change_executors(seat.gate, 1);
  queue.fair.usage.begin(now);
  seat.group.fair.usage.begin(now);
  usage_.begin(now);
  Charge charged;
  charged.began = now;
  charged.queue_epoch = epoch_of(queue);
  charged.place = static_cast<std::uint16_t>(seat.gate.id | queue.capped_);
  return charged;
}

void RunningTurns::begin_lease(RingQueue& queue, Charge& charged, std::uint32_t width, Site site) {
  const bool is_remote = site == Site::kRemote;
  width = std::min(width, Charge::kMostWidth);
  if (width == 1 && !is_remote) return;
  charged.lease = static_cast<std::uint16_t>(width | (is_remote ? Charge::kRemote : 0U));
  RingSeat& seat = *queue.seat_;
  if (is_remote) seat.gate.remote += width;
  change_width(queue, width - 1);
  for (Usage* const usage : {&queue.fair.usage, &seat.group.fair.usage, &usage_})
    usage->begin(charged.began, width - 1);
  if (seat.parent != nullptr) seat.parent->group.fair.usage.begin(charged.began, width - 1);
}

Nanoseconds RunningTurns::end_lease(RingQueue& queue, const Charge& charged, Nanoseconds received,
                                    Nanoseconds now) {
  RingSeat& seat = *queue.seat_;
  const std::uint32_t width = charged.width();
  if (charged.site() == Site::kRemote) seat.gate.remote -= width;
  change_width(queue, 1 - width);
  const EndedService others(charged.began, received / width, now, width - 1);
  for (Usage* const usage : {&queue.fair.usage, &seat.group.fair.usage, &usage_}) usage->end(others);
  if (seat.parent != nullptr) seat.parent->group.fair.usage.end(others);
  return received / width;
}

void RunningTurns::change_width(RingQueue& queue, std::uint32_t by) {
  RingSeat& seat = *queue.seat_;
  executors_ += by;
  gates_.change_executors(seat.gate, by);
  queue.fair.executors += by;
  seat.group.change_executors(seat, by);
  if (seat.parent != nullptr) seat.parent->group.change_executors(*seat.parent, by);
}

std::uint32_t RunningTurns::admitted(const RingQueue& queue, const ClaimRequest& request) {
  std::uint32_t width = std::clamp(request.width, 1U, Charge::kMostWidth);
  if (queue.slots_ != 0) width = std::min(width, queue.slots_ - queue.fair.executors);
  const RingGate& gate = queue.seat_->gate;
  const GateOptions& options = gate.options;
  if (options.max_running != 0) width = std::min(width, options.max_running - gate.executors);
  if (request.site == Site::kLocal && options.concurrency != 0)
    width = std::min(width, options.concurrency - (gate.executors - gate.remote));
  for (const RingGroup* group = &queue.seat_->group; group != nullptr; group = group->tenant) {
    if (group->limits.slots != 0) width = std::min(width, group->limits.slots - group->fair.executors);
  }
  return width;
}

}  // namespace locksley

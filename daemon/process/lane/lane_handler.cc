#include "daemon/process/lane/lane_handler.h"

#include <algorithm>

#include "core/lane/lane_gates.h"
#include "daemon/base/time.h"

namespace locksley::daemon {

void LaneHandler::set_program(std::shared_ptr<const Program> program) {
  const std::shared_ptr<const Program> before = std::exchange(program_, std::move(program));
  const auto rate_of = [](const Program* of) { return of == nullptr ? std::nullopt : of->settings().rate; };
  const auto rate = rate_of(program_.get());
  if (rate != rate_of(before.get())) {
    rate_ = StartRate();
    if (rate) rate_.set_interval(start_interval(rate->count, rate->period), steady_now());
    rate_timer_.cancel();
    is_rate_open_ = true;
  }
  if (program_ != nullptr) {
    // A command runs one job; a turn of a worker is not larger than the rate's tolerance.
    lane_.gates().set_largest_claim(gate_, program_->kind() == Program::Kind::kCommand ? 1 : rate_.most());
  }
  update_gate();
  update_rate(steady_now());
}

void LaneHandler::set_slots(std::uint32_t slots) {
  slots_ = slots;
  update_gate();
}

void LaneHandler::pause_began() {
  ++pausing_;
  update_gate();
}

void LaneHandler::pause_ended() {
  --pausing_;
  update_gate();
}

bool LaneHandler::spares_job(Nanoseconds now) {
  if (!has_worked_) return false;
  if (!cannot_work_since_ || now - last_failure_ > kSpareTime) cannot_work_since_ = now;
  last_failure_ = now;
  return now - *cannot_work_since_ < kSpareTime;
}

void LaneHandler::note_started(std::uint64_t jobs, Nanoseconds now) {
  rate_.take(jobs, now);
  update_rate(now);
}

void LaneHandler::update_rate(Nanoseconds now) {
  const bool is_open = rate_.available(now) != 0;
  // [lane-at-rate] relaxed: as in is_at_rate().
  at_rate_.store(!is_open, std::memory_order_relaxed);
  if (std::exchange(is_rate_open_, is_open) != is_open) update_gate();
  if (is_open) return;
  rate_timer_.expires_at(Instant(rate_.next_at()));
  rate_timer_.async_wait([this](const asio::error_code& error) {
    if (error) return;
    kProcessThread.assert_held();
    update_rate(steady_now());
  });
}

void LaneHandler::update_gate() {
  const std::uint32_t most = program_ == nullptr ? 0 : std::min(program_->settings().concurrency, slots_);
  const std::uint32_t limit = most - std::min(most, pausing_);
  // [handler-backoff] relaxed: as in is_backing_off().
  backs_off_.store(most != 0 && limit == 0, std::memory_order_relaxed);
  if (limit != 0 && std::exchange(limit_, limit) != limit) lane_.gates().set_concurrency(gate_, limit);
  // A start uses up one interval of the rate. The handler could run `most` jobs during that time,
  // so a start costs `most` intervals.
  if (most != 0) lane_.gates().set_start_cost(gate_, rate_.interval() * static_cast<std::int64_t>(most));
  const bool is_on = limit != 0 && is_rate_open_;
  if (std::exchange(is_on_, is_on) != is_on) lane_.gates().set_switch(gate_, is_on);
}

}  // namespace locksley::daemon

#include "daemon/process/process_lane.h"

#include <algorithm>
#include <asio/post.hpp>
#include <stdexcept>
#include <utility>

namespace locksley::daemon {

ProcessLane::ProcessLane(ProcessLoop& loop, std::string name, std::string description, Program program,
                         const FairRing::Options& options, const MakeSlot& make_slot)
    : loop_(loop),
      program_(std::move(program)),
      handler_(name, std::move(description),
               [](JobContext&, std::string_view) {
                 throw std::logic_error("a process's job is run by a worker");
               }),
      lane_(std::move(name), options),
      rate_(program_.settings().rate),
      rate_timer_(loop.executor()) {
  for (std::uint32_t i = 0; i < program_.settings().concurrency; ++i) {
    slots_.push_back(make_slot(*this));
    free_.push_back(slots_.back().get());
  }
  lane_.on_work([this] { post_pump(); });
  lane_.on_stop([this] { wake(look_is_posted_, &ProcessLane::look); });
  loop_.add(*this);
}

ProcessLane::~ProcessLane() {
  lane_.on_work(nullptr);
  lane_.on_stop(nullptr);
}

void ProcessLane::wake(std::atomic<bool>& is_posted, void (ProcessLane::*what)()) {
  if (is_posted.exchange(true)) return;
  asio::post(loop_.executor(), [this, &is_posted, what] {
    is_posted.store(false);
    (this->*what)();
  });
}

void ProcessLane::slot_is_free(ProcessSlot& slot) {
  // A worker that died while it was idle is there still.
  if (std::ranges::find(free_, &slot) == free_.end()) free_.push_back(&slot);
  pump();
}

void ProcessLane::pump() {
  if (is_stopping_) return;
  // So many turns at a time, that jobs which end at once do not hold up the other lanes.
  constexpr int kMost = 64;
  bool waits_for_rate = false;
  for (int turns = 0; !free_.empty() && lane_.ring().has_work(); ++turns) {
    if (turns == kMost) {
      post_pump();
      break;
    }
    const Nanoseconds now = steady_now();
    const std::uint64_t most = rate_.available(now);
    waits_for_rate = most == 0;
    if (waits_for_rate) break;
    ProcessSlot* const slot = free_.back();
    if (slot->is_busy()) {  // it has lost its process meanwhile, and will come back
      free_.pop_back();
      continue;
    }
    const std::uint64_t started = slot->begin(most);
    rate_.take(started, now);
    if (slot->is_busy()) {
      free_.pop_back();
    } else if (started == 0) {
      break;
    }
  }
  // [lane-at-rate] relaxed: as in is_at_rate().
  at_rate_.store(waits_for_rate, std::memory_order_relaxed);
  if (waits_for_rate) arm_rate_timer();
}

void ProcessLane::arm_rate_timer() {
  if (std::exchange(rate_timer_is_armed_, true)) return;
  rate_timer_.expires_at(std::chrono::steady_clock::time_point(rate_.next_at()));
  rate_timer_.async_wait([this](const asio::error_code& error) {
    if (error) return;
    rate_timer_is_armed_ = false;
    pump();
  });
}

void ProcessLane::look() {
  for (const auto& slot : slots_) slot->look();
}

void ProcessLane::stop() {
  is_stopping_ = true;
  for (const auto& slot : slots_) slot->stop();
}

void ProcessLane::abandon() {
  for (const auto& slot : slots_) slot->abandon();
}

bool ProcessLane::is_stopped() const {
  return std::ranges::all_of(slots_, [](const auto& slot) { return slot->is_stopped(); });
}

}  // namespace locksley::daemon

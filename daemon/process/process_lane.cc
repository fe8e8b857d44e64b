#include "daemon/process/process_lane.h"

#include <algorithm>
#include <asio/post.hpp>
#include <utility>

#include "daemon/base/time.h"
#include "daemon/process/slots/command_slot.h"
#include "daemon/process/slots/worker_slot.h"

namespace locksley::daemon {

ProcessLane::ProcessLane(ProcessLoop& loop, std::string name, const FairRing::Options& options)
    : loop_(loop),
      lane_(std::move(name), options),
      rate_timer_(loop.executor()),
      backoff_timer_(loop.executor()),
      room_timer_(loop.executor()) {
  lane_.on_work([this] { post_pump(); });
  lane_.on_stop([this] { wake(check_is_posted_, &ProcessLane::check_cancelled); });
  asio::post(loop.executor(), [this] {
    kProcessThread.assert_held();
    loop_.add(*this);
  });
}

ProcessLane::~ProcessLane() {
  lane_.on_work(nullptr);
  lane_.on_stop(nullptr);
}

void ProcessLane::wake(std::atomic<bool>& is_posted, void (ProcessLane::*what)()) {
  if (is_posted.exchange(true)) return;
  asio::post(loop_.executor(), [this, &is_posted, what] {
    kProcessThread.assert_held();
    is_posted.store(false);
    (this->*what)();
  });
}

void ProcessLane::set_program(std::shared_ptr<const Program> program) {
  if (program != nullptr) {
    const config::Handler& settings = program->settings();
    lane_.set_parallelism(settings.concurrency);
    // A start uses up an interval of the rate, in which all slots could work.
    lane_.set_start_cost(RateLimiter(settings.rate).interval() *
                         static_cast<std::int64_t>(settings.concurrency));
  }
  asio::post(loop_.executor(), [this, program = std::move(program)]() mutable {
    kProcessThread.assert_held();
    take_program(std::move(program));
  });
}

void ProcessLane::take_program(std::shared_ptr<const Program> program) {
  if (is_stopping_) return;
  const std::shared_ptr<const Program> before = std::exchange(program_, std::move(program));
  const auto rate_of = [](const Program* of) { return of == nullptr ? std::nullopt : of->settings().rate; };
  if (const auto rate = rate_of(program_.get()); rate != rate_of(before.get())) {
    rate_ = RateLimiter(rate);
    rate_timer_.cancel();
    rate_timer_is_armed_ = false;
  }
  const bool starts_the_same =
      before != nullptr && program_ != nullptr && program_->starts_the_same_process_as(*before);
  // Busy slots come back by themselves. A free slot may have become busy, as its process died.
  for (ProcessSlot* slot : std::exchange(free_, {})) {
    if (slot->is_busy()) continue;
    if (!starts_the_same) slot->release_process();
    if (!slot->is_busy()) take_back(*slot);
  }
  if (!starts_the_same) {
    for (const auto& slot : slots_) slot->reset_failures();
    end_backoffs(Nanoseconds::max());
  }
  fill();
  pump();
}

bool ProcessLane::is_wanted(const ProcessSlot& slot) const {
  return program_ != nullptr && slot.kind() == program_->kind() &&
         in_use_ <= program_->settings().concurrency;
}

void ProcessLane::take_back(ProcessSlot& slot) {
  if (is_wanted(slot)) {
    free_.push_back(&slot);
    return;
  }
  slot.release_process();
  if (slot.is_busy()) return;  // it comes back when its process has ended
  idle_[static_cast<std::size_t>(slot.kind())].push_back(&slot);
  --in_use_;
}

void ProcessLane::fill() {
  while (program_ != nullptr && in_use_ < program_->settings().concurrency) {
    // Slots without a process are used last.
    free_.insert(free_.begin(), &unused_slot(program_->kind()));
    ++in_use_;
  }
}

ProcessSlot& ProcessLane::unused_slot(Program::Kind kind) {
  std::vector<ProcessSlot*>& idle = idle_[static_cast<std::size_t>(kind)];
  if (!idle.empty()) {
    ProcessSlot& slot = *idle.back();
    idle.pop_back();
    return slot;
  }
  if (kind == Program::Kind::kCommand) {
    slots_.push_back(std::make_unique<CommandSlot>(*this));
  } else {
    slots_.push_back(std::make_unique<WorkerSlot>(*this));
  }
  return *slots_.back();
}

void ProcessLane::slot_is_free(ProcessSlot& slot) {
  // A worker that died while its slot was free is in the list already.
  if (std::ranges::find(free_, &slot) == free_.end()) take_back(slot);
  fill();
  pump();
}

void ProcessLane::pump() {
  if (is_stopping_) return;
  end_backoffs(steady_now());
  // Bounds the turns of one call, so that jobs which end at once do not hold up the other lanes.
  constexpr int kMost = 64;
  bool waits_for_rate = false;
  for (int turns = 0; !free_.empty() && lane_.has_work(); ++turns) {
    if (turns == kMost) {
      post_pump();
      break;
    }
    if (!loop_.store_has_room()) {
      arm_room_timer();
      break;
    }
    const Nanoseconds now = steady_now();
    const std::uint64_t most = rate_.available(now);
    waits_for_rate = most == 0;
    if (waits_for_rate) break;
    ProcessSlot* const slot = free_.back();
    if (slot->is_busy()) {  // its process has died meanwhile; the slot will come back
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

void ProcessLane::end_backoffs(Nanoseconds until) {
  const std::optional<Nanoseconds> next = lane_.end_backoffs(until);
  if (!next || next == backoff_timer_at_) return;
  backoff_timer_at_ = next;
  backoff_timer_.expires_at(Instant(*next));
  backoff_timer_.async_wait([this](const asio::error_code& error) {
    if (error) return;
    kProcessThread.assert_held();
    backoff_timer_at_.reset();
    pump();
  });
}

void ProcessLane::arm_rate_timer() {
  if (std::exchange(rate_timer_is_armed_, true)) return;
  rate_timer_.expires_at(Instant(rate_.next_at()));
  rate_timer_.async_wait([this](const asio::error_code& error) {
    if (error) return;
    kProcessThread.assert_held();
    rate_timer_is_armed_ = false;
    pump();
  });
}

void ProcessLane::arm_room_timer() {
  // Polled: the store has no room only while the disk is slow, or fails.
  constexpr auto kPeriod = std::chrono::milliseconds(20);
  if (std::exchange(room_timer_is_armed_, true)) return;
  room_timer_.expires_after(kPeriod);
  room_timer_.async_wait([this](const asio::error_code& error) {
    if (error) return;
    kProcessThread.assert_held();
    room_timer_is_armed_ = false;
    pump();
  });
}

void ProcessLane::check_cancelled() {
  for (const auto& slot : slots_) slot->check_cancelled();
}

void ProcessLane::stop() {
  is_stopping_ = true;
  for (const auto& slot : slots_) slot->stop();
}

void ProcessLane::abandon() {
  for (const auto& slot : slots_) slot->abandon();
}

bool ProcessLane::is_stopped() const {
  for (const auto& slot : slots_) {
    if (!slot->is_stopped()) return false;
  }
  return true;
}

}  // namespace locksley::daemon

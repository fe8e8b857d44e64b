#include "daemon/process/lane/process_lane.h"

#include <algorithm>
#include <asio/post.hpp>
#include <utility>

#include "core/lane/lane_gates.h"
#include "daemon/base/time.h"

namespace locksley::daemon {
namespace {

// The most jobs and bytes of one turn: once jobs have been sent to a worker, no other worker can
// run them.
constexpr std::uint64_t kMostJobs = 256;
constexpr std::size_t kMostBytes = 256U << 10;

}  // namespace

ProcessLane::ProcessLane(ProcessLoop& loop, std::string name, const FairRing::Options& options,
                         MakeRunner make_runner)
    : loop_(loop),
      make_runner_(std::move(make_runner)),
      lane_(std::move(name), options),
      idle_timer_(loop.executor()),
      wait_timer_(loop.executor()),
      room_timer_(loop.executor()) {
  lane_.gates().set_switch(0, false);  // gate 0 belongs to no handler
  lane_.on_work([this] {
    // The new work may be for remote workers alone.
    if (lane_.hints().has_work()) post_pump();
  });
  lane_.on_wait([this] { post_pump(); });
  lane_.on_stop([this] { wake(check_is_posted_, &ProcessLane::check_cancelled); });
  asio::post(loop.executor(), [this] {
    kProcessThread.assert_held();
    loop_.add(*this);
  });
}

ProcessLane::~ProcessLane() {
  lane_.on_work(nullptr);
  lane_.on_wait(nullptr);
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

// ---- Turns ----

void ProcessLane::pump() {
  // A runner may report a change while a turn is given to it.
  if (is_stopping_ || is_pumping_) return;
  is_pumping_ = true;
  begin_turns();
  is_pumping_ = false;
}

void ProcessLane::begin_turns() {
  end_waits();
  // Bounds the turns of one call, so that jobs which end at once do not hold up the other lanes.
  constexpr int kMost = 64;
  for (int turns = 0;; ++turns) {
    // Jobs that came after a change of the configuration run under the new one.
    make_changes();
    if (!slots_.has_free() || !lane_.hints().has_work()) return;
    if (turns == kMost) return post_pump();
    if (!loop_.store_has_room()) return arm_room_timer();
    if (executors_.empty()) executors_.push_back(std::make_unique<ExternalExecutor>(lane_));
    std::unique_ptr<ExternalExecutor> turn = std::move(executors_.back());
    executors_.pop_back();
    if (!claim(*turn)) return take_back(std::move(turn));
    place(std::move(turn));
  }
}

bool ProcessLane::claim(ExternalExecutor& turn) {
  if (const auto staying = slots_.staying(steady_now()); !staying.empty()) {
    GateSet gates(GateSet::Restriction::kPassing);
    for (const ProcessRunner* const runner : staying) gates.add(runner->handler()->gate());
    if (turn.begin_turn(kMostJobs, kMostBytes, &gates)) return true;
  }
  return turn.begin_turn(kMostJobs, kMostBytes);
}

void ProcessLane::place(std::unique_ptr<ExternalExecutor> turn) {
  const LaneSlots::Choice choice = slots_.choose(by_gate_[turn->gate()]->idle(), steady_now());
  LaneSlot& slot = *choice.slot;
  if (choice.has_room) return begin(slot, choice.idle, std::move(turn));
  turn->set_starting(true);
  slot.waiting = std::move(turn);
  slots_.update(slot);
  if (choice.to_end == nullptr) return;
  choice.to_end->release_process();
  runner_changed(*choice.to_end);
}

void ProcessLane::begin(LaneSlot& slot, ProcessRunner* idle, std::unique_ptr<ExternalExecutor> turn) {
  LaneHandler& handler = *by_gate_[turn->gate()];
  if (handler.program() == nullptr) {
    give_up(std::move(turn));
    return slots_.update(slot);
  }
  ProcessRunner& runner = idle != nullptr ? *idle : empty_runner(slot, handler);
  if (idle != nullptr) std::erase(handler.idle(), idle);
  turn->set_starting(false);
  const Nanoseconds now = steady_now();
  const std::uint64_t started = runner.begin(handler, std::move(turn), handler.may_start(now));
  handler.note_started(started, now);
  // The runner has started none of the turn's jobs.
  if (runner.state() == ProcessRunner::State::kIdle) handler.idle().push_back(&runner);
  slots_.update(slot);
}

void ProcessLane::give_up(std::unique_ptr<ExternalExecutor> turn) {
  turn->end_turn();
  take_back(std::move(turn));
}

void ProcessLane::begin_waiting(LaneSlot& slot) {
  if (slot.waiting == nullptr || !slots_.has_room(slot)) return;
  std::unique_ptr<ExternalExecutor> turn = std::move(slot.waiting);
  begin(slot, nullptr, std::move(turn));
}

ProcessRunner& ProcessLane::empty_runner(LaneSlot& slot, const LaneHandler& handler) {
  for (const auto& runner : slot.runners) {
    if (runner->kind() == handler.program()->kind() && runner->state() == ProcessRunner::State::kEmpty &&
        runner->may_serve(handler)) {
      return *runner;
    }
  }
  slot.runners.push_back(make_runner_(*this, slot, handler.program()->kind()));
  return *slot.runners.back();
}

void ProcessLane::runner_changed(ProcessRunner& runner) {
  LaneHandler& handler = *runner.handler();
  LaneSlot& slot = runner.slot();
  std::erase(handler.idle(), &runner);
  if (!runner.has_process()) {
    std::erase(handler.to_replace(), &runner);
    if (handler.in_replacement() == &runner) handler.in_replacement() = nullptr;
  }
  if (is_stopping_) return slots_.update(slot);
  if (runner.state() == ProcessRunner::State::kIdle) {
    if (slot.is_wanted && !slots_.is_over(slot)) {
      handler.idle().push_back(&runner);
      arm_idle_timer(steady_now() + idle_timeout_);
    } else {
      runner.release_process();
    }
  }
  go_on_replacing(handler);
  begin_waiting(slot);
  slots_.update(slot);
  pump();
}

// ---- Timers ----

void ProcessLane::arm_idle_timer(Nanoseconds at) {
  if (idle_timeout_.count() == 0 || std::exchange(idle_timer_is_armed_, true)) return;
  idle_timer_.expires_at(Instant(at));
  idle_timer_.async_wait([this](const asio::error_code& error) {
    if (error) return;
    kProcessThread.assert_held();
    idle_timer_is_armed_ = false;
    end_idle_processes();
  });
}

void ProcessLane::end_idle_processes() {
  if (is_stopping_ || idle_timeout_.count() == 0) return;
  const Nanoseconds now = steady_now();
  std::optional<Nanoseconds> next;
  std::vector<ProcessRunner*> over;
  for (LaneHandler* const handler : by_gate_) {
    if (handler == nullptr) continue;
    for (ProcessRunner* const runner : handler->idle()) {
      const Nanoseconds end = runner->idle_since() + idle_timeout_;
      if (end <= now) {
        over.push_back(runner);
      } else {
        next = next ? std::min(*next, end) : end;
      }
    }
  }
  if (next) arm_idle_timer(*next);
  for (ProcessRunner* const runner : over) {
    runner->release_process();
    runner_changed(*runner);
  }
}

void ProcessLane::end_waits() {
  const std::optional<Nanoseconds> next = lane_.end_waits(steady_now());
  if (!next || next == wait_timer_at_) return;
  wait_timer_at_ = next;
  wait_timer_.expires_at(Instant(*next));
  wait_timer_.async_wait([this](const asio::error_code& error) {
    if (error) return;
    kProcessThread.assert_held();
    wait_timer_at_.reset();
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

// ---- Cancellation and the end ----

void ProcessLane::check_cancelled() {
  for (const auto& slot : slots_.all()) {
    for (const auto& runner : slot->runners) runner->check_cancelled();
    if (slot->waiting == nullptr || !slot->waiting->batch().is_stopping()) continue;
    give_up(std::move(slot->waiting));
    slots_.update(*slot);
  }
  pump();
}

void ProcessLane::stop() {
  is_stopping_ = true;
  idle_timer_.cancel();
  for (const auto& slot : slots_.all()) {
    for (const auto& runner : slot->runners) runner->stop();
    if (slot->waiting != nullptr) give_up(std::move(slot->waiting));
  }
}

void ProcessLane::abandon() {
  for (const auto& slot : slots_.all()) {
    for (const auto& runner : slot->runners) runner->abandon();
    if (slot->waiting != nullptr) give_up(std::move(slot->waiting));
  }
}

bool ProcessLane::is_stopped() const {
  for (const auto& slot : slots_.all()) {
    for (const auto& runner : slot->runners) {
      if (runner->has_process()) return false;
    }
  }
  return true;
}

}  // namespace locksley::daemon

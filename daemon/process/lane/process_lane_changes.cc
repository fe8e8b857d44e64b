// ProcessLane: how changes of the configuration reach its slots, its handlers and their programs.
#include <algorithm>
#include <utility>

#include "config/lanes.h"
#include "core/base/check.h"
#include "core/lane/lane_gates.h"
#include "core/lane/lane_view.h"
#include "daemon/process/lane/process_lane.h"

namespace locksley::daemon {

static_assert(config::kMostHandlersOfLane < kMostGates);

// ---- The I/O thread ----

void ProcessLane::change(std::function<void()> what) {
  {
    const MutexLock lock(changes_mutex_);
    changes_.push_back(std::move(what));
  }
  has_changes_.store(true);
  post_pump();
}

void ProcessLane::set_slots(const config::Lane& settings) {
  slot_count_ = settings.slots.count;
  lane_.set_parallelism(slot_count_);
  change([this, settings] {
    kProcessThread.assert_held();
    take_slots(settings);
  });
}

bool ProcessLane::has_room_for(std::size_t handlers) const {
  // Gate 0 belongs to no handler.
  std::size_t free = kMostGates - 1 - handlers_.size();
  for (auto known = handlers_.begin(); free < handlers && known != handlers_.end(); ++known) {
    free += is_unused(*known->second) ? 1 : 0;
  }
  return free >= handlers;
}

bool ProcessLane::is_unused(const LaneHandler& handler) const {
  return !handler.is_wanted() && !lane_.view().has_batches(handler.gate());
}

LaneHandler* ProcessLane::find(const std::string& name) const {
  const auto found = handlers_.find(name);
  return found == handlers_.end() ? nullptr : found->second.get();
}

LaneHandler& ProcessLane::handler(const std::string& name) {
  if (LaneHandler* const known = find(name)) return *known;
  std::unique_ptr<LaneHandler> made = take_unused();
  if (made == nullptr) {
    const std::optional<GateId> gate = lane_.gates().add({.is_on = false});
    check(gate.has_value(), "a lane has more handlers than gates");
    made = std::make_unique<LaneHandler>(lane_, loop_.executor(), *gate);
  }
  LaneHandler& handler = *(handlers_[name] = std::move(made));
  handler.set_wanted(true);
  change([this, name, &handler] {
    kProcessThread.assert_held();
    handler.rename(name);
    if (by_gate_.size() <= handler.gate()) by_gate_.resize(handler.gate() + 1);
    by_gate_[handler.gate()] = &handler;
    handler.set_slots(static_cast<std::uint32_t>(slots_.wanted()));
  });
  return handler;
}

std::unique_ptr<LaneHandler> ProcessLane::take_unused() {
  for (auto known = handlers_.begin(); known != handlers_.end(); ++known) {
    if (is_unused(*known->second)) return std::move(handlers_.extract(known).mapped());
  }
  return nullptr;
}

void ProcessLane::set_remote(LaneHandler& handler, bool is_remote, std::uint32_t max_running) {
  // The configuration has the handler, with a program or without.
  if (is_remote) handler.set_wanted(true);
  lane_.gates().set_max_running(handler.gate(), max_running);
  lane_.gates().set_remote(handler.gate(), is_remote);
}

void ProcessLane::set_program(LaneHandler& handler, std::shared_ptr<const Program> program) {
  handler.set_wanted(program != nullptr);
  change([this, &handler, program = std::move(program)] {
    kProcessThread.assert_held();
    take_program(handler, program);
  });
}

std::uint32_t ProcessLane::replace_processes(LaneHandler& handler) {
  change([this, &handler] {
    kProcessThread.assert_held();
    std::vector<ProcessRunner*>& to_replace = handler.to_replace();
    to_replace.clear();
    for (const auto& slot : slots_.all()) {
      for (const auto& runner : slot->runners) {
        if (runner->handler() == &handler && runner->has_process()) to_replace.push_back(runner.get());
      }
    }
    go_on_replacing(handler);
  });
  return handler.processes();
}

// ---- The process thread ----

void ProcessLane::make_changes() {
  if (!has_changes_.load()) return;
  has_changes_.store(false);
  std::vector<std::function<void()>> changes;
  {
    const MutexLock lock(changes_mutex_);
    changes.swap(changes_);
  }
  for (const auto& what : changes) what();
}

void ProcessLane::take_slots(const config::Lane& settings) {
  if (is_stopping_) return;
  idle_timeout_ = settings.idle_timeout;
  idle_timer_.cancel();
  idle_timer_is_armed_ = false;
  slots_.configure(settings.slots);
  for (LaneHandler* const handler : by_gate_) {
    if (handler == nullptr) continue;
    handler->set_slots(settings.slots.count);
    for (ProcessRunner* const runner : std::vector(handler->idle())) {
      LaneSlot& slot = runner->slot();
      if (slot.is_wanted && !slots_.is_over(slot)) continue;
      runner->release_process();
      runner_changed(*runner);
    }
  }
  end_idle_processes();
}

void ProcessLane::take_program(LaneHandler& handler, std::shared_ptr<const Program> program) {
  if (is_stopping_) return;
  const std::shared_ptr<const Program> before = handler.program();
  handler.set_program(std::move(program));
  const Program* const after = handler.program().get();
  if (before == nullptr || after == nullptr || !after->starts_the_same_process_as(*before)) {
    // Runners with a turn see by themselves that their process is an old one.
    for (ProcessRunner* const runner : std::vector(handler.idle())) {
      runner->release_process();
      runner_changed(*runner);
    }
    for (const auto& slot : slots_.all()) {
      for (const auto& runner : slot->runners) {
        if (runner->handler() == &handler) runner->reset_failures();
      }
    }
    lane_.end_backoffs();
    end_waits();
  }
}

void ProcessLane::go_on_replacing(LaneHandler& handler) {
  ProcessRunner*& current = handler.in_replacement();
  if (current != nullptr && current->state() == ProcessRunner::State::kEnding) return;
  const auto next = std::ranges::find_if(handler.to_replace(), [](const ProcessRunner* runner) {
    kProcessThread.assert_held();
    return runner->state() == ProcessRunner::State::kIdle;
  });
  if (next == handler.to_replace().end()) return;
  current = *next;
  handler.to_replace().erase(next);
  std::erase(handler.idle(), current);
  current->release_process();
  slots_.update(current->slot());
}

}  // namespace locksley::daemon

#include "tests/simulation/fleet.h"

#include <utility>

namespace locksley::daemon::simulation {

using namespace std::chrono_literals;

void Fleet::add_machine(std::uint32_t slots, Nanoseconds delay, std::vector<std::string> handlers,
                        double slowness) {
  Machine::Options options;
  options.link.name = "m" + std::to_string(machines_.size());
  options.link.slots = slots;
  options.link.handlers = std::move(handlers);
  options.delay = delay;
  options.slowness = slowness;
  options.seed = random_();
  machines_.push_back(std::make_unique<Machine>(
      clock_, std::move(options), [this](const std::shared_ptr<Wire>& wire) { return owner_.accept(wire); },
      [this](std::uint64_t batch, std::uint64_t index) { return cost_of(batch, index); }));
}

// From a half to one and a half of what the batch's jobs cost, the same each time.
Nanoseconds Fleet::cost_of(std::uint64_t batch, std::uint64_t index) {
  const Nanoseconds about = owner_.disk().record(batch).plan.cost;
  std::uint64_t mixed = (index + 1) * 0x9E3779B97F4A7C15U ^ batch * 0xBF58476D1CE4E5B9U;
  mixed ^= mixed >> 31;
  return about / 2 + about * static_cast<std::int64_t>(mixed % 1'024) / 1'024;
}

void Fleet::begin_faults(Nanoseconds every) {
  fault_every_ = every;
  next_fault();
}

void Fleet::next_fault() {
  const auto most = static_cast<std::uint64_t>(2 * fault_every_.count());
  clock_.after(Nanoseconds(static_cast<std::int64_t>(up_to(most))), [this] {
    if (fault_every_.count() == 0) return;
    ++faults_;
    // The owner is one of many.
    if (up_to(machines_.size()) == 0) {
      up_to(2) == 0 ? crash_owner() : owner_.pause(clock_.now() + some(up_to(7) == 0 ? 8'000 : 200));
    } else {
      disturb(*machines_[up_to(machines_.size() - 1)]);
    }
    next_fault();
  });
}

void Fleet::crash_owner() {
  if (!owner_.is_up()) return;
  owner_.crash();
  clock_.after(some(1'000), [this] {
    if (!owner_.is_up()) owner_.start();
  });
}

void Fleet::cut(const std::shared_ptr<Wire>& wire, bool up, bool down, Nanoseconds time) {
  const auto set = [=](bool is_cut) {
    if (up) wire->cut(Wire::End::kMachine, is_cut);
    if (down) wire->cut(Wire::End::kOwner, is_cut);
  };
  set(true);
  clock_.after(time, [set] { set(false); });
}

void Fleet::disturb(Machine& machine) {
  const auto start_later = [this, &machine](Nanoseconds wait) {
    clock_.after(wait, [&machine] { machine.start(); });
  };
  const std::shared_ptr<Wire> wire = machine.is_up() ? machine.wire() : nullptr;
  const Nanoseconds time = some(up_to(7) == 0 ? 20'000 : 300);
  switch (up_to(8)) {
    case 0:
      machine.kill();
      return start_later(time);
    case 1:
      machine.lose_power();
      return start_later(time);
    case 2:
    case 3:
      return machine.pause(clock_.now() + time);
    case 4:
      machine.set_slowness(0.5 + static_cast<double>(up_to(100)) / 10);
      return;
    default:
      break;
  }
  if (wire == nullptr) return;
  switch (up_to(5)) {
    case 0:
      return cut(wire, true, false, time);
    case 1:
      return cut(wire, false, true, time);
    case 2:
      return cut(wire, true, true, time);
    case 3:
      wire->add_delay(time / 8);
      clock_.after(time, [wire, time] { wire->add_delay(-(time / 8)); });
      return;
    case 4:
      return wire->reset(up_to(3) == 0 ? Wire::End::kOwner : Wire::End::kMachine);
    default:
      // Both ends hear that the connection is broken.
      return wire->reset();
  }
}

void Fleet::stop_faults() {
  fault_every_ = 0ns;
  if (!owner_.is_up()) owner_.start();
  for (const auto& machine : machines_) {
    machine->start();
    machine->set_slowness(1);
  }
}

bool Fleet::finish(Nanoseconds longest) {
  const Nanoseconds end = clock_.now() + longest;
  while (clock_.now() < end && !owner_.all_over()) run_for(100ms);
  return owner_.all_over();
}

}  // namespace locksley::daemon::simulation

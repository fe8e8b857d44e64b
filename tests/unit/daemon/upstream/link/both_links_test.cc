// The two ends of the link together: the daemon that owns the batches, and machines that lease
// their jobs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "proto/command_reader.h"
#include "tests/unit/daemon/upstream/link/link_fixture.h"
#include "tests/unit/daemon/workers/worker_link_fixture.h"

namespace locksley::daemon::test {
namespace {

// A machine: its end of the link, and a program that runs the jobs.
struct Machine {
  Machine(const std::string& name, std::uint32_t slots, std::uint64_t seed, Nanoseconds now)
      : link(runner, options(name, slots, seed), now) {}
  static UpstreamLinkOptions options(const std::string& name, std::uint32_t slots, std::uint64_t seed) {
    UpstreamLinkOptions result;
    result.name = name;
    result.slots = slots;
    result.handlers = {"echo", "resize"};
    result.seed = seed;
    return result;
  }

  FakeRunner runner;
  UpstreamLink link;
  WorkerLink::Id id = 0;  // 0: not connected
  std::unique_ptr<proto::CommandReader> reader;
};

class BothLinksTest : public ::testing::Test {
 protected:
  explicit BothLinksTest(WorkerLinkOptions options = {.max_losses = 1'000'000}) {
    owner.serve("echo");
    owner.serve("resize");
    hub = std::make_unique<WorkerLink>(owner, options, 77, now);
  }
  ~BothLinksTest() override {
    hub.reset();
    for (const auto& [name, served] : owner.served) served->place.lane->detach_all();
  }

  Machine& add(const std::string& name, std::uint32_t slots, std::uint64_t seed = 1) {
    machines.push_back(std::make_unique<Machine>(name, slots, seed, now));
    return *machines.back();
  }
  void connect(Machine& machine) {
    machine.id = hub->connect("renderer", proto::Protocol::kResp3);
    machine.reader = std::make_unique<proto::CommandReader>();
    machine.link.connected(now);
  }
  // All bytes that are under way are lost.
  void disconnect(Machine& machine) {
    hub->disconnect(machine.id, now);
    machine.id = 0;
    machine.link.disconnected("cut", now);
  }
  // The machine's bytes to the hub, which executes them.
  void up(Machine& machine) {
    machine.link.flush(now);
    machine.link.claim_put_off(now);
    const std::string bytes = machine.link.output().to_string();
    machine.link.output().consume(bytes.size());
    std::string_view rest = bytes;
    while (!rest.empty()) {
      const auto space = machine.reader->prepare();
      const std::size_t n = std::min(space.size(), rest.size());
      std::memcpy(space.data(), rest.data(), n);
      machine.reader->commit(n);
      rest.remove_prefix(n);
      proto::Command command;
      while (machine.reader->next(command) == proto::ReadStatus::kComplete) execute(machine, command);
    }
  }
  // The connection answers HELLO by itself.
  void execute(Machine& machine, const proto::Command& command) {
    if (command.name() != "HELLO") return hub->execute(machine.id, command.arguments, now);
    proto::ReplyWriter writer(hub->output(machine.id), proto::Protocol::kResp3);
    writer.map(0);
  }
  void down(Machine& machine) {
    proto::OutputBuffer& output = hub->output(machine.id);
    const std::string bytes = output.to_string();
    output.consume(bytes.size());
    std::string_view rest = bytes;
    while (!rest.empty()) {
      const auto space = machine.link.space();
      const std::size_t n = std::min(space.size(), rest.size());
      std::copy_n(rest.data(), n, space.data());
      machine.link.received(n, now);
      rest.remove_prefix(n);
    }
    ASSERT_FALSE(machine.link.is_broken()) << machine.link.trouble();
  }
  void run(Machine& machine, std::uint64_t jobs) {
    std::vector<LeaseKey> keys;
    for (const auto& [key, it] : machine.runner.running) keys.push_back(key);
    for (const LeaseKey key : keys) {
      FakeRunner::Running& it = machine.runner.running.at(key);
      const std::uint64_t first = it.next;
      std::string outputs;
      while (!it.is_stopped && it.next < it.range.high && it.next - first < jobs) {
        outputs += bulk("r" + std::to_string(it.next++));
      }
      if (it.next != first) machine.link.settle(key, JobStatus::kOk, first, it.next - first, outputs, now);
      if (it.next < it.range.high && !it.is_stopped) continue;
      machine.runner.running.erase(key);
      machine.link.ended(key, now);
    }
  }
  void round(std::uint64_t jobs) {
    hub->advance(now);
    for (const auto& machine : machines) {
      machine->link.advance(now);
      machine->link.report_waiting(now);
      if (machine->id == 0) {
        if (machine->link.wants_connection(now)) connect(*machine);
        continue;
      }
      up(*machine);
      down(*machine);
      run(*machine, jobs);
    }
    now += 1ms;
  }
  void run_all(std::uint64_t jobs = 5) {
    for (int i = 0; i < 20'000 && !are_all_over(); ++i) round(jobs);
    check_ledger();
  }
  bool are_all_over() const {
    return std::ranges::all_of(owner.batches, [](const auto& entry) { return entry.second->is_over(); });
  }
  void check_ledger() const {
    for (const auto& [number, batch] : owner.batches) {
      EXPECT_TRUE(batch->is_over()) << "batch " << number;
      std::set<std::uint64_t> indexes;
      for (const locksley::testing::Row& row : locksley::testing::rows_of(*batch)) {
        EXPECT_TRUE(indexes.insert(row.index).second) << "job " << row.index << " is recorded twice";
        EXPECT_EQ(row.output, "r" + std::to_string(row.index));
      }
      EXPECT_EQ(indexes.size(), batch->status().jobs);
    }
  }

  Nanoseconds now{1'000'000'000};
  FakeHost owner;
  std::unique_ptr<WorkerLink> hub;
  std::vector<std::unique_ptr<Machine>> machines;
};

TEST_F(BothLinksTest, JobsOfOneBatchRunOnSeveralMachines) {
  owner.submit("echo", 3'000);
  for (int i = 0; i < 3; ++i) add("m" + std::to_string(i), 2);
  run_all();
  for (const auto& machine : machines) EXPECT_GT(machine->link.stats().settled_jobs, 0U);
}

TEST_F(BothLinksTest, PayloadsAndRangesArriveAsTheyAre) {
  owner.submit("echo", 4, {},
               std::make_unique<StringPayloads>(std::vector<std::string>{"a", "", "ccc", "d\r\n"}));
  Machine& machine = add("m", 1);
  run_all();
  EXPECT_EQ(machine.runner.payloads,
            (std::map<std::uint64_t, std::string>{{0, "a"}, {1, ""}, {2, "ccc"}, {3, "d\r\n"}}));
  machine.runner.payloads.clear();
  owner.submit("echo", 3, {}, std::make_unique<RangePayloads>(-1, "x{}"));
  run_all();
  EXPECT_EQ(machine.runner.payloads,
            (std::map<std::uint64_t, std::string>{{0, "x-1"}, {1, "x0"}, {2, "x1"}}));
}

TEST_F(BothLinksTest, ALateMachineGetsItsPartOfALeaseByACut) {
  owner.submit("echo", 40);
  Machine& first = add("first", 1);
  // One job in 100 ms: the lease would go on for seconds.
  for (int i = 0; i < 10; ++i) {
    round(0);
    now += 100ms;
    run(first, 1);
  }
  Machine& second = add("second", 1);
  for (int i = 0; i < 20'000 && !are_all_over(); ++i) {
    round(0);
    now += 100ms;
    for (const auto& machine : machines) run(*machine, 1);
  }
  check_ledger();
  EXPECT_GT(second.link.stats().settled_jobs, 5U);
}

TEST_F(BothLinksTest, JobsThatWaitBehindOtherJobsOfTheirMachineGoToAnIdleOne) {
  BatchOptions options;
  options.timeout = 1s;
  const auto batch = owner.submit("echo", 3, options);
  add("held-up", 1);
  for (int i = 0; i < 500; ++i) round(0);
  EXPECT_EQ(hub->stats().leases, 2U);
  Machine& idle = add("idle", 1);
  for (int i = 0; i < 500 && !batch->is_over(); ++i) {
    round(0);
    run(idle, 1);
  }
  check_ledger();
  EXPECT_EQ(batch->status().ok, 3U);
  EXPECT_EQ(idle.link.stats().settled_jobs, 3U);
}

TEST_F(BothLinksTest, ACancelledBatchIsStoppedOnTheMachine) {
  const auto batch = owner.submit("echo", 1'000);
  Machine& machine = add("m", 2);
  for (int i = 0; i < 10; ++i) round(1);
  ASSERT_FALSE(machine.runner.running.empty());
  owner.lane_of("echo")->cancel(*batch, "cancelled");
  hub->check_batches(now);
  for (int i = 0; i < 10; ++i) round(1);
  EXPECT_TRUE(machine.runner.running.empty());
  EXPECT_TRUE(batch->is_over());
  EXPECT_EQ(hub->stats().leases, 0U);
}

TEST_F(BothLinksTest, ADrainedMachineLeavesNothingBehind) {
  owner.submit("echo", 1'000);
  Machine& machine = add("m", 3);
  for (int i = 0; i < 10; ++i) round(1);
  machine.link.drain(now);
  for (int i = 0; i < 10; ++i) round(1);
  EXPECT_TRUE(machine.link.is_done());
  EXPECT_EQ(hub->stats().workers, 0U);
  EXPECT_EQ(hub->stats().leases, 0U);
  add("other", 1);
  run_all();
}

TEST_F(BothLinksTest, RandomFaultsLoseNoJobAndRecordNoneTwice) {
  for (std::uint64_t seed = 1; seed <= 12 && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const auto one_in = [&](std::uint64_t n) { return random() % n == 0; };
    machines.clear();
    for (int i = 0; i < 3; ++i)
      add("m" + std::to_string(i), static_cast<std::uint32_t>(1 + random() % 3), random());
    for (int i = 0; i < 4; ++i) owner.submit(one_in(2) ? "echo" : "resize", 1 + random() % 200);
    for (int step = 0; step < 50'000 && !are_all_over(); ++step) {
      Machine& machine = *machines[random() % machines.size()];
      now += Nanoseconds(random() % (one_in(200) ? 4'000'000'000 : 3'000'000));
      hub->advance(now);
      machine.link.advance(now);
      if (machine.id == 0) {
        if (machine.link.wants_connection(now)) connect(machine);
        continue;
      }
      if (one_in(2)) up(machine);
      if (one_in(2)) down(machine);
      if (one_in(3)) run(machine, 1 + random() % 5);
      if (one_in(60)) disconnect(machine);
    }
    check_ledger();
    for (const auto& machine : machines) {
      if (machine->id != 0) disconnect(*machine);
    }
  }
}

}  // namespace
}  // namespace locksley::daemon::test

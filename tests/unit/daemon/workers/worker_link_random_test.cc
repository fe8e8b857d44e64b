// Workers that do everything in a random order, and a ledger beside them; and commands that make no
// sense. LOCKSLEY_SEED repeats a run.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>
#include <string>
#include <vector>

#include "core/lane/lane_view.h"
#include "tests/support/seed.h"
#include "tests/unit/daemon/workers/worker_link_fixture.h"

namespace locksley::daemon::test {
namespace {

using locksley::testing::Row;
using locksley::testing::rows_of;

class WorkerLinkRandomTest : public WorkerLinkFixture {
 protected:
  static constexpr std::uint64_t kMostLeased = 60;
  static constexpr std::uint64_t kPayload = 2;  // bytes, of FakeHost::submit()

  // A lease as its worker remembers it, also after it is gone.
  struct Memory {
    std::string lease;
    std::uint64_t batch = 0;
    std::uint64_t first = 0;
    std::uint64_t high = 0;
  };
  struct Machine {
    WorkerLink::Id id = 0;
    Nanoseconds asleep_until{};
    std::deque<Memory> leases;
  };

  std::uint64_t up_to(std::uint64_t most) { return random() % (most + 1); }

  void join(Machine& machine) {
    const bool pushes = up_to(1) == 0;
    machine.id = connect(up_to(1) == 0 ? "renderer" : "painter",
                         pushes ? proto::Protocol::kResp3 : proto::Protocol::kResp2);
    say(machine.id, "JOIN m SLOTS " + std::to_string(1 + up_to(3)) + (up_to(1) == 0 ? " LEASE 1000" : "") +
                        (pushes ? " PUSH" : "") + " HANDLERS echo resize");
  }
  void submit() {
    BatchOptions options;
    options.tenant = std::string(1, static_cast<char>('a' + up_to(2)));
    if (up_to(3) == 0) options.slots = static_cast<std::uint32_t>(1 + up_to(3));
    if (up_to(3) == 0) options.timeout = 300ms;
    const std::uint64_t jobs = 1 + up_to(100);
    host.submit(up_to(1) == 0 ? "echo" : "resize", jobs, options,
                up_to(1) == 0 ? std::make_unique<RangePayloads>(0) : nullptr);
  }
  void remember(Machine& machine, const std::string& reply) {
    const std::size_t at = reply.find("*14 ");
    const Granted granted = at == std::string::npos ? Granted{} : parse(reply.substr(at));
    if (!granted) return;
    ++claims;
    machine.leases.push_back(
        {granted.lease, std::stoull(granted.batch), granted.first, granted.first + granted.count});
    if (machine.leases.size() > 20) machine.leases.pop_front();
  }
  // What is there to read, as a worker does.
  void read(Machine& machine) {
    if (machine.id != 0) remember(machine, sent(machine.id));
  }
  void command(Machine& machine, const Words& words) { remember(machine, run(machine.id, words)); }

  void step(Machine& machine) {
    if (now < machine.asleep_until) return;
    ++steps;
    if (machine.id == 0) return join(machine);
    if (up_to(999) == 0) machine.asleep_until = now + 1ms * up_to(12'000);
    read(machine);
    if (up_to(3) == 0) {
      return command(machine, split("CLAIM WIDTH " + std::to_string(1 + up_to(2)) + " JOBS " +
                                    std::to_string(1 + up_to(30)) + (up_to(1) == 0 ? " BLOCK 100" : "")));
    }
    if (machine.leases.empty()) return;
    const Memory& lease = machine.leases[up_to(machine.leases.size() - 1)];
    const std::string some = std::to_string(lease.first + up_to(lease.high - lease.first));
    switch (up_to(14)) {
      case 0:
        return command(machine, {"YIELD", lease.lease, some});
      case 1:
        return command(machine, {"YIELD", lease.lease});
      case 2:
        return command(machine, {"BEAT", lease.lease, some});
      case 3:
        return reclaim(machine, lease);
      case 4:
        if (up_to(9) == 0) command(machine, {"LEAVE"}), machine.id = leave(machine);
        return;
      case 5:
        if (up_to(3) != 0) return;
        link->disconnect(machine.id, now);
        machine.id = 0;
        return;
      default:
        return settle(machine, lease);
    }
  }
  WorkerLink::Id leave(const Machine& machine) {
    link->disconnect(machine.id, now);
    return 0;
  }
  // Of its own leases, or by the name of one that perhaps another connection has.
  void reclaim(Machine& machine, Memory lease) {
    const std::deque<Memory>& known = machines[up_to(machines.size() - 1)].leases;
    const bool names_lease = up_to(1) == 0 && !known.empty();
    if (names_lease) lease = known[up_to(known.size() - 1)];
    Words command{"RECLAIM", std::to_string(lease.batch), "1", std::to_string(lease.first),
                  std::to_string(lease.high)};
    if (names_lease) command.insert(command.end(), {"LEASE", lease.lease});
    const std::string reply = run(machine.id, command);
    const Words words = split(reply);
    if (words.size() < 3 || words[0] != "*3") return;
    ++reclaims;
    machine.leases.push_back({words[2], lease.batch, lease.first, lease.high});
  }
  // Some of its jobs, or more than these.
  void settle(Machine& machine, const Memory& lease) {
    const std::uint64_t first = lease.first + up_to(lease.high - lease.first - 1);
    const std::uint64_t count = 1 + up_to(lease.high - first - (up_to(19) == 0 ? 0 : 1));
    Words words{"SETTLE", lease.lease, up_to(9) == 0 ? "error" : "ok", std::to_string(first)};
    words.insert(words.end(), count, "out");
    command(machine, words);
  }
  void disturb() {
    const auto batch =
        std::next(host.batches.begin(), static_cast<std::ptrdiff_t>(up_to(host.batches.size() - 1)));
    Lane& lane = *host.lane_of(batch->second->handler().name());
    switch (up_to(7)) {
      case 0:
        if (up_to(3) == 0) lane.cancel(*batch->second, "cancelled");
        return link->check_batches(now);
      case 1:
        return lane.pause(*batch->second);
      case 2:
      case 3:
        return lane.resume(*batch->second);
      case 4:
        host.room = !host.room || up_to(3) != 0;
        return;
      default:
        // Replies wait for some writes.
        link->written(host.writes);
        ++host.writes;
    }
    if (batch->second->is_over()) {
      check_rows(*batch->second);
      host.batches.erase(batch);
      ++over;
    }
    // At times there is little to do, so that workers wait and leases are cut.
    if (host.batches.size() < (over / 20 % 2 == 0 ? 20U : 3U)) submit();
  }
  // Each index was recorded exactly once.
  static void check_rows(const Batch& batch) {
    std::vector<Row> rows = rows_of(batch);
    std::ranges::sort(rows, {}, &Row::index);
    ASSERT_EQ(rows.size(), batch.status().jobs);
    for (std::uint64_t i = 0; i < rows.size(); ++i) ASSERT_EQ(rows[i].index, i);
  }
  // Each index is queued, ended, or held by exactly one lease.
  void check_ledger() {
    std::uint64_t known = 0, jobs = 0, leases = 0, bytes = 0;
    std::map<const WorkerAccount*, std::uint64_t> accounts;
    for (const auto& [id, worker] : link->workers()) {
      leases += worker.leases.size();
      bytes += link->unsent_bytes(id);
      accounts[&worker.account] += link->unsent_bytes(id);
      for (const auto& [number, out] : worker.leases) {
        known += out->lease.held().size();
        bytes += out->lease.payload_bytes();
        accounts[&worker.account] += out->lease.payload_bytes();
      }
    }
    for (const auto& [account, its_bytes] : accounts) {
      ASSERT_EQ(its_bytes, account->use().leased_bytes);
      ASSERT_LE(its_bytes, kMostLeased / 2 + kPayload);
    }
    ASSERT_EQ(leases, link->stats().leases);
    ASSERT_EQ(bytes, link->stats().leased_bytes);
    for (const auto& [name, served] : host.served) known += served->lane->view().snapshot(0).queued;
    for (const auto& [number, batch] : host.batches) {
      const BatchStatus status = batch->status();
      jobs += status.jobs;
      known += status.rows;
    }
    ASSERT_EQ(known, jobs);
  }
  // The time in which slots were occupied, which is what the ring was charged in the end.
  void tick() {
    const Nanoseconds by{static_cast<std::int64_t>(random() % 20'000'000)};
    for (const auto& [id, worker] : link->workers())
      occupied += by * (worker.slots.size() - worker.slots.idle());
    now += by;
    link->advance(now);
  }

  std::mt19937_64 random = locksley::testing::stress_random(4);
  std::vector<Machine> machines = std::vector<Machine>(6);
  Nanoseconds occupied{};
  std::uint64_t steps = 0, claims = 0, reclaims = 0, over = 0;
};

TEST_F(WorkerLinkRandomTest, EachIndexIsRecordedOnceAndAllTimeIsCharged) {
  restart({.max_leased_bytes = kMostLeased});
  submit();
  for (int i = 0; steps < 100'000; ++i) {
    Machine& machine = machines[up_to(machines.size() - 1)];
    step(machine);
    if (i % 8 == 0) tick();
    if (i % 16 == 0) disturb();
    if (i % 32 == 0) link->wake(now);
    if (i % 64 != 0) continue;
    ASSERT_NO_FATAL_FAILURE(check_ledger()) << i;
  }
  for (Machine& machine : machines) {
    if (machine.id != 0) link->disconnect(machine.id, now);
  }
  EXPECT_EQ(link->stats().leases, 0U);
  EXPECT_EQ(busy("echo") + busy("resize") + link->stats().held_up, occupied);
  std::printf("%llu claims, %llu reclaims, %llu batches, lost %llu and %llu, late %llu, cuts %llu\n",
              static_cast<unsigned long long>(claims), static_cast<unsigned long long>(reclaims),
              static_cast<unsigned long long>(over),
              static_cast<unsigned long long>(link->stats().lost_by_disconnect),
              static_cast<unsigned long long>(link->stats().lost_by_silence),
              static_cast<unsigned long long>(link->stats().timed_out),
              static_cast<unsigned long long>(link->stats().cut_orders));
  EXPECT_GT(claims, 1'000U);
  EXPECT_GT(reclaims, 10U);
  EXPECT_GT(over, 20U);
  EXPECT_GT(link->stats().lost_by_silence, 0U);
  EXPECT_GT(link->stats().timed_out, 0U);
  // What is left is run to its end.
  host.room = true;
  link->written(host.writes);
  const WorkerLink::Id last = connect();
  say(last, "JOIN last SLOTS 8 HANDLERS echo resize");
  for (const auto& [number, batch] : host.batches) host.lane_of(batch->handler().name())->resume(*batch);
  while (const Granted lease = claim(last, "WIDTH 8")) settle_all(last, lease);
  for (const auto& [number, batch] : host.batches) {
    ASSERT_TRUE(batch->is_over());
    check_rows(*batch);
  }
}

// Whatever words come, each command has one reply, and the link goes on.
TEST_F(WorkerLinkRandomTest, CommandsWithoutSenseAreAnswered) {
  host.submit("echo", 50);
  const WorkerLink::Id id = joined(4);
  const Granted lease = claim(id, "JOBS 1");
  ASSERT_TRUE(lease);
  const Words words = {"JOIN",
                       "CLAIM",
                       "SETTLE",
                       "NOTE",
                       "YIELD",
                       "BEAT",
                       "RECLAIM",
                       "LEAVE",
                       "w",
                       "SLOTS",
                       "LEASE",
                       "HANDLERS",
                       "PUSH",
                       "SLOT",
                       "WIDTH",
                       "JOBS",
                       "BYTES",
                       "BLOCK",
                       "ok",
                       "echo",
                       "PROGRESS",
                       "TEXT",
                       "LOG",
                       "EXIT",
                       "0",
                       "1",
                       "2",
                       "-1",
                       "3000",
                       "",
                       "\r\n",
                       "x y",
                       "0x10",
                       "4294967295",
                       "4294967296",
                       "1e9",
                       "18446744073709551615",
                       "18446744073709551616",
                       lease.lease,
                       "9223372036854775807"};
  for (int i = 0; i < 100'000; ++i) {
    Words command{words[up_to(7)]};
    const std::uint64_t count = up_to(8);
    for (std::uint64_t k = 0; k < count; ++k) command.push_back(words[up_to(words.size() - 1)]);
    const bool waits = link->workers().contains(id) && link->workers().at(id).waiting.has_value();
    const std::string reply = run(id, command);
    const bool waits_now = link->workers().contains(id) && link->workers().at(id).waiting.has_value();
    const std::size_t expected = (waits ? 1U : 0U) + (waits_now ? 0U : 1U);
    ASSERT_EQ(reply.empty(), expected == 0) << command[0];
    now += 1ms;
    if (i % 100 == 0) link->advance(now), (void)sent(id);
    if (i % 1000 == 0) host.submit("echo", 3);
  }
  link->disconnect(id, now);
  EXPECT_EQ(link->stats().leases, 0U);
  EXPECT_EQ(ring().executors, 0U);
}

}  // namespace
}  // namespace locksley::daemon::test

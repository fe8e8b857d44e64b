// A link, an upstream, and a program that runs the jobs one by one, on a clock that the test moves.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "daemon/upstream/link/upstream_link.h"
#include "tests/unit/daemon/upstream/link/fake_upstream.h"

namespace locksley::daemon::test {

inline std::string bulk(const std::string& text) {
  return "$" + std::to_string(text.size()) + "\r\n" + text + "\r\n";
}

// Runs jobs when it is told to.
class FakeRunner final : public UpstreamHost {
 public:
  struct Running {
    IndexRange range;
    std::uint64_t next = 0;
    bool is_finishing = false;
    bool is_stopped = false;
  };

  bool begin(LeaseKey lease, LeasedJobs jobs) override {
    if (refuses) return false;
    std::string scratch;
    for (std::uint64_t i = jobs.range.low; i < jobs.range.high; ++i) {
      std::string_view payload;
      jobs.payloads->fetch(i, {&payload, 1}, scratch);
      payloads[i] = payload;
    }
    running[lease] = {.range = jobs.range, .next = jobs.range.low};
    last = std::move(jobs);
    last.payloads.reset();
    most_running = std::max(most_running, running.size());
    return true;
  }
  std::uint64_t withdraw(LeaseKey lease, std::uint64_t at) override {
    Running& it = running.at(lease);
    const std::uint64_t from = std::max(at, it.next);
    if (from >= it.range.high) return std::numeric_limits<std::uint64_t>::max();
    it.range.high = from;
    return from;
  }
  void finish(LeaseKey lease) override { running.at(lease).is_finishing = true; }
  void stop(LeaseKey lease) override { running.at(lease).is_stopped = true; }
  std::uint64_t next(LeaseKey lease) override { return running.at(lease).next; }

  std::map<LeaseKey, Running> running;
  std::map<std::uint64_t, std::string> payloads;
  LeasedJobs last;  // what was begun last, without payloads
  std::size_t most_running = 0;
  bool refuses = false;
};

class LinkFixture : public ::testing::Test {
 protected:
  void make(std::uint64_t jobs, std::uint32_t slots = 2) {
    upstream = std::make_unique<FakeUpstream>(jobs);
    host = std::make_unique<FakeRunner>();
    options.name = "host-7";
    options.slots = slots;
    if (options.handlers.empty()) options.handlers = {"echo"};
    link = std::make_unique<UpstreamLink>(*host, options, now);
  }

  void connect() {
    upstream->connect();
    link->connected(now);
    is_connected = true;
  }
  void disconnect() {
    is_connected = false;
    upstream->disconnect();
    link->disconnected("cut", now);
  }
  void reconnect() {
    for (int i = 0; i < 100 && !link->wants_connection(now); ++i) advance(100ms);
    ASSERT_TRUE(link->wants_connection(now));
    connect();
  }
  std::string sent() {
    std::string bytes = link->output().to_string();
    link->output().consume(bytes.size());
    return bytes;
  }
  void deliver(std::string_view bytes) {
    while (!bytes.empty()) {
      const auto space = link->space();
      const std::size_t n = std::min(bytes.size(), space.size());
      std::copy_n(bytes.data(), n, space.data());
      link->received(n, now);
      bytes.remove_prefix(n);
    }
    link->flush(now);
  }
  // Bytes in both directions, until both are silent.
  void exchange() {
    for (int silent = 0; silent < 2 && is_connected; ++silent) {
      link->flush(now);
      link->claim_put_off(now);
      if (const std::string bytes = sent(); !bytes.empty()) {
        upstream->feed(bytes);
        silent = 0;
      }
      if (const std::string bytes = upstream->take(); !bytes.empty()) {
        deliver(bytes);
        silent = 0;
      }
    }
  }
  void join() {
    connect();
    exchange();
    ASSERT_TRUE(link->is_joined()) << link->trouble();
  }
  // Runs up to `jobs` jobs of each lease that runs, and settles them as one run.
  void run(std::uint64_t jobs = 1) {
    std::vector<LeaseKey> keys;
    for (const auto& [key, it] : host->running) keys.push_back(key);
    for (const LeaseKey key : keys) run_lease(key, jobs);
  }
  void run_lease(LeaseKey key, std::uint64_t jobs) {
    FakeRunner::Running& it = host->running.at(key);
    const std::uint64_t first = it.next;
    std::string outputs;
    while (!it.is_stopped && it.next < it.range.high && it.next - first < jobs)
      outputs += bulk("r" + std::to_string(it.next++));
    if (it.next != first) link->settle(key, JobStatus::kOk, first, it.next - first, outputs, now);
    if (it.next < it.range.high && !it.is_stopped) return;
    host->running.erase(key);
    link->ended(key, now);
  }
  void advance(Nanoseconds by) {
    now += by;
    link->advance(now);
  }
  // The upstream hangs: time passes until the link leaves it. How long that took.
  Nanoseconds hang() {
    const Nanoseconds before = now;
    while (!link->is_broken() && link->next_timer() && now - before < 10min) {
      advance(std::max<Nanoseconds>(*link->next_timer() - now, 1ms));
      sent();
    }
    EXPECT_TRUE(link->is_broken()) << "it still waits";
    return now - before;
  }
  void run_all() {
    for (int i = 0; i < 10'000 && !upstream->all_recorded(); ++i) {
      exchange();
      run(3);
    }
    exchange();
    EXPECT_TRUE(upstream->all_recorded());
    for (const int times : upstream->recorded) EXPECT_EQ(times, 1);
  }
  // Nothing is left anywhere.
  void drain_it() {
    link->drain(now);
    for (int i = 0; i < 20 && !link->is_done(); ++i) {
      run(1);
      exchange();
    }
    EXPECT_TRUE(link->is_done());
    EXPECT_TRUE(upstream->leases.empty());
    EXPECT_EQ(link->stats().leases, 0U);
    EXPECT_EQ(link->stats().kept_bytes, 0U);
  }

  Nanoseconds now{1'000'000'000};
  UpstreamLinkOptions options;
  std::unique_ptr<FakeUpstream> upstream;
  std::unique_ptr<FakeRunner> host;
  std::unique_ptr<UpstreamLink> link;
  bool is_connected = false;
};

}  // namespace locksley::daemon::test

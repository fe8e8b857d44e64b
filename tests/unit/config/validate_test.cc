#include "config/validate.h"

#include <gtest/gtest.h>

#include "config/availability.h"

namespace locksley::config {
namespace {

using namespace std::chrono_literals;

std::string shown(const std::vector<Problem>& problems) {
  std::string result;
  for (const Problem& problem : problems) result += to_string(problem) + "\n";
  return result;
}

TEST(ValidateTest, DefaultsAreValidAndAvailable) {
  EXPECT_EQ(shown(check(Config{})), "");
  EXPECT_EQ(shown(find_unavailable(Config{})), "");
}

// Built in code, so nothing has read it yet.
TEST(ValidateTest, BoundsHoldForAConfigBuiltInCode) {
  Config config;
  config.listen.address = "nowhere";
  config.pool.workers = 5000;
  config.scheduling.quantum = 0s;
  config.limits.max_payload = Bytes{0};
  config.handlers["a b"].plugin = "p";
  config.handlers["c"].command = {"p"};
  config.handlers["c"].rate = Rate{0, 1s};
  config.users["u"].password_hash = "x";
  config.users["u"].handlers = {"a.b"};
  EXPECT_EQ(shown(check(config)),
            "listen.address: expected an IPv4 or IPv6 address such as 127.0.0.1, found \"nowhere\"\n"
            "pool.workers: expected a whole number from 0 to 1024, found \"5000\"\n"
            "scheduling.quantum: expected a duration from 10us to 1s, found \"0s\"\n"
            "limits.max_payload: expected a size from 1 to 1GiB, found \"0\"\n"
            "handlers.a b: expected a name of at most 64 letters, digits, - and _, found \"a b\"\n"
            "handlers.c.rate: expected a rate with a count from 1 to 1000000, found \"0/s\"\n"
            "users.u.handlers: expected a name of at most 64 letters, digits, - and _, found \"a.b\"\n");
}

TEST(ValidateTest, ContradictionsHoldForAConfigBuiltInCode) {
  Config config;
  config.pool.workers = 1;
  config.scheduling.reserved_workers = 1;
  config.limits.max_queued_jobs = 1;
  config.listen.tls.client_ca = "ca.pem";
  EXPECT_EQ(shown(check(config)),
            "listen.tls: expected certificate and key beside client_ca, found client_ca alone\n"
            "scheduling.reserved_workers: expected less than pool.workers (1), found \"1\"\n"
            "limits.max_batch_jobs: expected at most limits.max_queued_jobs (1), found \"10000000\"\n");
}

TEST(ValidateTest, ReservedWorkersAreFreeWhileTheNumberOfWorkersIs) {
  Config config;
  config.scheduling.reserved_workers = 8;
  EXPECT_EQ(shown(check(config)), "");
}

TEST(ValidateTest, AnyPortMayBeTheSame) {
  Config config;
  config.listen.port = 0;
  config.http.port = 0;
  EXPECT_EQ(shown(check(config)), "");
  config.listen.port = 7000;
  config.http.port = 7000;
  config.http.address = "127.0.0.2";
  EXPECT_EQ(shown(check(config)), "");
}

TEST(ValidateTest, ProblemsCarryTheOriginOfTheirKey) {
  Config config;
  config.pool.workers = 5000;
  const Origins origins{{"pool.workers", Origin{{7, 9}, "\"5000\"", true}}};
  const auto problems = check(config, origins);
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_EQ(problems.front().line, 7U);
  EXPECT_EQ(problems.front().column, 9U);
}

TEST(SettleLimitsTest, WhatTheFileSetsStays) {
  const Origins both{{"limits.max_payload", {}}, {"limits.max_command", {}}, {"limits.max_queued_bytes", {}}};
  Limits limits;
  limits.max_payload = mebibytes(2);
  limits.max_command = mebibytes(1);
  const Limits before = limits;
  settle_limits(limits, both);
  EXPECT_EQ(limits, before);
}

TEST(SettleLimitsTest, DefaultsNeedNoSettling) {
  Limits limits;
  settle_limits(limits, {});
  EXPECT_EQ(limits, Limits{});
}

}  // namespace
}  // namespace locksley::config

// The plan and the sums of `bench`, and its throughput with a daemon that is a script.

#include <gmock/gmock.h>

#include <algorithm>
#include <map>

#include "daemon/cli/bench/bench_plan.h"
#include "daemon/cli/bench/bench_throughput.h"
#include "daemon/cli/bench/latency.h"
#include "tests/support/fake_server.h"

namespace locksley::cli {
namespace {

using namespace locksley::testing::fake;

constexpr std::chrono::milliseconds kPatience = std::chrono::minutes(1);

TEST(CliBenchTest, EveryJobIsInOneBatch) {
  const auto plan = BenchPlan::make({.jobs = 25, .payload_bytes = 4, .batch = 10, .connections = 8}).value();
  EXPECT_EQ(plan.batches(), 3U);
  EXPECT_EQ(plan.connections(), 3U);
  EXPECT_EQ(plan.jobs_of(0) + plan.jobs_of(1) + plan.jobs_of(2), 25U);
  EXPECT_EQ(plan.jobs_of(2), 5U);
  EXPECT_EQ(plan.payloads(2), "$4\r\n0000\r\n$4\r\n0001\r\n");
}

TEST(CliBenchTest, SingleJobsAreDealtToAllConnections) {
  const auto plan = BenchPlan::make({.jobs = 10, .connections = 4, .latency = true}).value();
  std::uint64_t sum = 0;
  for (unsigned i = 0; i < 4; ++i) sum += plan.jobs_of_connection(i);
  EXPECT_EQ(sum, 10U);
}

TEST(CliBenchTest, ABatchLargerThanACommandIsRefused) {
  EXPECT_FALSE(BenchPlan::make({.jobs = 10'000'000, .payload_bytes = 1000, .batch = 10'000'000}));
}

TEST(CliBenchTest, RowsAreCompleteOnlyWithEveryIndexOnce) {
  RowCheck check;
  check.add(0, "ok", "ab");
  check.add(2, "error", "");
  EXPECT_FALSE(check.is_complete(3));
  check.add(2, "ok", "cd");
  EXPECT_FALSE(check.is_complete(3));
  RowCheck good;
  for (const std::uint64_t index : {2U, 0U, 1U}) good.add(index, "ok", "abc");
  EXPECT_TRUE(good.is_complete(3));
  EXPECT_EQ(good.ok, 3U);
  EXPECT_EQ(good.output_bytes, 9U);
}

TEST(CliBenchTest, QuantilesAreByNearestRank) {
  std::vector<std::uint64_t> values;
  for (std::uint64_t i = 1; i <= 1000; ++i) values.push_back(i);
  EXPECT_EQ(quantile(values, 0.5), 500U);
  EXPECT_EQ(quantile(values, 0.999), 999U);
  EXPECT_EQ(quantile(values, 1.0), 1000U);
  EXPECT_EQ(quantile({}, 0.5), 0U);
  EXPECT_EQ(quantile({7}, 0.001), 7U);
  const LatencySummary summary = summarize({3000, 1000, 2000});
  EXPECT_DOUBLE_EQ(summary.p50_us, 2);
  EXPECT_DOUBLE_EQ(summary.max_us, 3);
  EXPECT_DOUBLE_EQ(summary.mean_us, 2);
}

// A server that runs `echo`: batches by id.
struct EchoServer {
  std::map<std::string, std::vector<std::string>> batches;
  bool loses_a_job = false;
  FakeServer server{[this](const Words& words) { return answer(words); }};

  Answer answer(const Words& words) {
    if (words[0] == "SUBMIT") {
      const std::string id = option_of(words, "ID");
      batches[id].assign(std::ranges::find(words, "JOBS") + 1, words.end());
      return Answer::text(bulk(id));
    }
    if (words[0] == "FORGET") return Answer::text(integer(batches.erase(words[1])));
    const auto& jobs = batches[words[1]];
    if (words[0] == "WAIT") return Answer::text(status_map(words[1], "done", jobs.size(), jobs.size()));
    // In pages of 4, whatever COUNT says, as a daemon that bounds its replies may.
    std::vector<Row> rows;
    std::size_t next = std::stoul(option_of(words, "FROM"));
    for (; next < jobs.size() && rows.size() < 4; ++next) rows.push_back({next, "ok", jobs[next]});
    const bool is_last = next == jobs.size();
    if (is_last && loses_a_job) rows.pop_back();
    return Answer::text(results_reply(is_last ? 0 : next, rows));
  }
};

TEST(CliBenchTest, AllBatchesAreSubmittedReadAndForgotten) {
  EchoServer fake;
  const auto plan = BenchPlan::make({.jobs = 95, .payload_bytes = 3, .batch = 10, .connections = 1}).value();
  client::Connection connection(-1);
  ASSERT_TRUE(connection.open(fake.server.address(), "", client::deadline_in(kPatience)));
  const auto count = ThroughputConnection(plan, 0, connection).run();
  ASSERT_TRUE(count) << count.error().message;
  EXPECT_EQ(count->jobs, 95U);
  EXPECT_EQ(count->ok, 95U);
  EXPECT_EQ(count->output_bytes, 95U * 3);
  EXPECT_GT(count->last_received, count->first_sent);
  connection.close();
  EXPECT_TRUE(fake.batches.empty());
}

TEST(CliBenchTest, ALostJobIsNoticed) {
  EchoServer fake;
  fake.loses_a_job = true;
  const auto plan = BenchPlan::make({.jobs = 10, .batch = 10, .connections = 1}).value();
  client::Connection connection(-1);
  ASSERT_TRUE(connection.open(fake.server.address(), "", client::deadline_in(kPatience)));
  const auto count = ThroughputConnection(plan, 0, connection).run();
  ASSERT_FALSE(count);
  EXPECT_THAT(count.error().message, ::testing::HasSubstr("of a batch of 10 jobs, 9 results came"));
}

}  // namespace
}  // namespace locksley::cli

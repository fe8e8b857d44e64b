// The built-in handlers, run as jobs on a real pool.
#include "daemon/handlers/builtins.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <string>

#include "core/batch/payload.h"
#include "tests/support/pool_fixture.h"

namespace locksley::daemon {
namespace {

using locksley::testing::PoolFixture;
using locksley::testing::Row;
using locksley::testing::rows_of;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using namespace std::chrono_literals;

class BuiltinsTest : public PoolFixture {
 protected:
  Handler& builtin(const std::string& name) {
    for (const auto& handler : builtins_) {
      if (handler->name() == name) return *handler;
    }
    throw std::out_of_range("no handler " + name);
  }

  std::shared_ptr<Batch> submit(const std::string& name, std::vector<std::string> payloads,
                                BatchOptions options = {}) {
    const std::uint64_t jobs = payloads.size();
    auto batch =
        make(builtin(name), std::make_unique<StringPayloads>(std::move(payloads)), std::move(options));
    lane.submit(batch, jobs, /*open=*/false);
    return batch;
  }

  // The results, by index.
  std::vector<Row> run(const std::string& name, std::vector<std::string> payloads,
                       BatchOptions options = {}) {
    const auto batch = submit(name, std::move(payloads), std::move(options));
    wait_over(*batch);
    std::vector<Row> rows = rows_of(*batch);
    std::ranges::sort(rows, {}, &Row::index);
    return rows;
  }

  std::vector<std::unique_ptr<Handler>> builtins_ = register_builtins();
};

TEST_F(BuiltinsTest, AreTheSixOfTheManualAndAllAreDescribed) {
  std::vector<std::string> names;
  for (const auto& handler : builtins_) {
    names.push_back(handler->name());
    EXPECT_FALSE(handler->description().empty()) << handler->name();
  }
  EXPECT_THAT(names, ::testing::UnorderedElementsAre("echo", "sha256", "sleep", "spin", "fail", "fib"));
}

TEST_F(BuiltinsTest, EchoReturnsAnyBytes) {
  const std::string bytes("\0\r\n\xff", 4);
  const std::vector<Row> expected = {
      {0, JobStatus::kOk, ""}, {1, JobStatus::kOk, bytes}, {2, JobStatus::kOk, std::string(100'000, 'x')}};
  EXPECT_EQ(run("echo", {"", bytes, std::string(100'000, 'x')}), expected);
}

// The digests are those of FIPS 180-2, appendix B, and of the empty message.
TEST_F(BuiltinsTest, Sha256AgreesWithTheStandard) {
  const auto rows = run("sha256", {"", "abc", "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
                                   std::string(1'000'000, 'a')});
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[0].output, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(rows[1].output, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(rows[2].output, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(rows[3].output, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

// The payload has 3 MiB, so that it takes more than one update.
TEST_F(BuiltinsTest, Sha256OfALongPayloadIsThatOfAllItsPieces) {
  EXPECT_EQ(run("sha256", {std::string(3u << 20, '\0')})[0].output,
            "bbd05cf6097ac9b1f89ea29d2542c1b7b67ee46848393895f5a9e43fa1f621e5");
}

TEST_F(BuiltinsTest, FailIsAnErrorWithThePayloadAsItsText) {
  const std::vector<Row> expected = {{0, JobStatus::kError, "failed as asked"},
                                     {1, JobStatus::kError, "no luck"}};
  EXPECT_EQ(run("fail", {"", "no luck"}), expected);
}

TEST_F(BuiltinsTest, FibIsRightBelowAtAndAboveItsCutoff) {
  const std::map<std::string, std::string> known = {{"0", "0"},     {"1", "1"},      {"2", "1"},
                                                    {"15", "610"},  {"16", "987"},   {"17", "1597"},
                                                    {"20", "6765"}, {"27", "196418"}};
  std::vector<std::string> payloads;
  for (const auto& [n, result] : known) payloads.push_back(n);
  const auto rows = run("fib", payloads);
  ASSERT_EQ(rows.size(), known.size());
  for (const Row& row : rows) {
    EXPECT_EQ(row.status, JobStatus::kOk);
    EXPECT_EQ(row.output, known.at(payloads[row.index])) << "fib(" << payloads[row.index] << ")";
  }
}

TEST_F(BuiltinsTest, FibSpawnsSubJobs) {
  run("fib", {"22"});
  std::uint64_t tasks = 0;
  for (const WorkerSnapshot& worker : pool.snapshot()) tasks += worker.tasks;
  EXPECT_GE(tasks, 10u);
}

TEST_F(BuiltinsTest, NumbersThatAreNoneAreRefusedByName) {
  const std::map<std::string, std::string> out_of_range = {
      {"sleep", "86400001"}, {"spin", "3600000001"}, {"fib", "51"}};
  for (const auto& [name, too_large] : out_of_range) {
    const std::vector<std::string> bad = {
        "", "x", "-1", "+1", "1.5", " 1", "1 ", "0x10", "18446744073709551616", too_large};
    const auto rows = run(name, bad);
    ASSERT_EQ(rows.size(), bad.size());
    for (const Row& row : rows) {
      EXPECT_EQ(row.status, JobStatus::kError) << name << " '" << bad[row.index] << "'";
      EXPECT_THAT(row.output,
                  AllOf(HasSubstr("must be a number from 0 to"), HasSubstr("'" + bad[row.index] + "'")))
          << name;
    }
  }
}

TEST_F(BuiltinsTest, AWrongPayloadIsQuotedShortAndPrintable) {
  const std::string output = run("fib", {std::string("\n\x1b[31m") + std::string(1000, 'y')})[0].output;
  EXPECT_LT(output.size(), 150u);
  EXPECT_THAT(output, AllOf(HasSubstr("'??[31myyy"), HasSubstr("yyy...'"), Not(HasSubstr("\n"))));
}

TEST_F(BuiltinsTest, SleepTakesAtLeastItsTimeAndReturnsNothing) {
  const Nanoseconds before = steady_now();
  const std::vector<Row> expected = {{0, JobStatus::kOk, ""}};
  EXPECT_EQ(run("sleep", {"20"}), expected);
  EXPECT_GE(steady_now() - before, 20ms);
}

TEST_F(BuiltinsTest, SpinUsesItsTimeOfCpu) {
  const std::vector<Row> expected = {{0, JobStatus::kOk, ""}};
  EXPECT_EQ(run("spin", {"20000"}), expected);
  // A worker counts its turn after the last result.
  const auto has_counted = [this] {
    std::uint64_t busy_ns = 0;
    for (const WorkerSnapshot& worker : pool.snapshot()) busy_ns += worker.busy_ns;
    return Nanoseconds(busy_ns) >= 20ms;
  };
  locksley::testing::wait_until(has_counted, "20 ms of a worker's time");
}

TEST_F(BuiltinsTest, NoPayloadHoldsAWorkerForMoreThanAnHour) {
  for (const auto& [name, payload] :
       std::map<std::string, std::string>{{"sleep", "3600001"}, {"spin", "3600000001"}}) {
    const std::vector<Row> rows = run(name, {payload});
    ASSERT_EQ(rows.size(), 1U) << name;
    EXPECT_EQ(rows[0].status, JobStatus::kError) << name;
    EXPECT_THAT(rows[0].output, HasSubstr("not '" + payload + "'")) << name;
  }
}

// Each job would take an hour or more.
TEST_F(BuiltinsTest, LongJobsStopWhenTheirBatchIsCancelled) {
  for (const auto& [name, payload] :
       std::map<std::string, std::string>{{"sleep", "3600000"}, {"spin", "3600000000"}, {"fib", "50"}}) {
    const auto batch = submit(name, {payload});
    locksley::testing::wait_until([&] { return batch->status().running == 1; }, "the job runs");
    lane.cancel(*batch, "enough");
    wait_over(*batch);
    const auto rows = rows_of(*batch);
    ASSERT_EQ(rows.size(), 1u) << name;
    EXPECT_EQ(rows[0].status, JobStatus::kCancelled) << name;
  }
}

TEST_F(BuiltinsTest, LongJobsStopAtTheirTimeLimit) {
  for (const auto& [name, payload] :
       std::map<std::string, std::string>{{"sleep", "3600000"}, {"spin", "3600000000"}, {"fib", "50"}}) {
    BatchOptions options;
    options.timeout = 20ms;
    EXPECT_EQ(run(name, {payload}, options).at(0).status, JobStatus::kTimeout) << name;
  }
}

}  // namespace
}  // namespace locksley::daemon

// What is known of a job, in bytes, and in the rows of results.
#include "core/batch/job_facts.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "core/batch/batch.h"
#include "core/batch/batch_results.h"
#include "core/batch/handler.h"
#include "core/batch/payload.h"
#include "core/batch/result_log.h"
#include "core/lane/result_writer.h"

namespace locksley {
namespace {

void expect_same(const JobFacts& a, const JobFacts& b) {
  EXPECT_EQ(a.attempt, b.attempt);
  EXPECT_EQ(a.started_at, b.started_at);
  EXPECT_EQ(a.duration_us, b.duration_us);
  EXPECT_EQ(a.worker, b.worker);
  EXPECT_EQ(a.exit_status, b.exit_status);
  EXPECT_EQ(a.progress, b.progress);
  EXPECT_EQ(a.note, b.note);
  EXPECT_EQ(a.log_end, b.log_end);
  EXPECT_EQ(a.log, b.log);
}

TEST(JobFactsTest, SurviveTheirEncoding) {
  const std::string log(100, 'l');
  const JobFacts full{.attempt = 3,
                      .started_at = 1'700'000'000'000,
                      .duration_us = 3'600'000'000,
                      .worker = "host-7",
                      .exit_status = 137,
                      .progress = 40,
                      .note = "half",
                      .log_end = 1'000'000,
                      .log = log};
  JobFacts some = full;
  some.exit_status.reset();
  some.note = {};
  JobFacts written_nothing = some;
  written_nothing.log_end = 0;
  written_nothing.log = {};
  for (const JobFacts& facts : {full, some, written_nothing, JobFacts{}}) {
    std::string bytes;
    encode(facts, bytes);
    const auto read = decode_facts(bytes);
    ASSERT_TRUE(read.has_value());
    expect_same(facts, *read);
    for (std::size_t size = 0; size < bytes.size(); ++size)
      EXPECT_FALSE(decode_facts(std::string_view(bytes).substr(0, size)).has_value()) << size;
    EXPECT_FALSE(decode_facts(bytes + 'x').has_value());
  }
}

TEST(JobFactsTest, AreFewBytes) {
  std::string bytes;
  encode({.started_at = 1'700'000'000'000, .duration_us = 5'000'000, .worker = "processes/3"}, bytes);
  EXPECT_LE(bytes.size(), 25U);
}

TEST(JobFactsTest, ARowThatSaysMoreFactsThanItHasBytesIsItsOutput) {
  std::string bytes = "output";
  bytes.append("\xFF\xFF\xFF\xFF", 4);
  const ResultRow damaged = ResultHead::with_facts(1, JobStatus::kOk, bytes);
  EXPECT_EQ(damaged.output, bytes);
  EXPECT_EQ(damaged.facts, "");
  EXPECT_EQ(ResultHead::with_facts(1, JobStatus::kOk, "xy").output, "xy");
}

TEST(JobFactsTest, StayWhereTheTextOfAnErrorIsCut) {
  Handler handler("test", "", [](JobContext&, std::string_view) {});
  BatchOptions options;
  options.max_output_bytes = 16;
  const auto batch = std::make_shared<Batch>(std::move(options), handler, std::make_unique<RangePayloads>(0));
  batch->jobs_added(1);
  std::string facts;
  encode({.worker = "processes/3"}, facts);
  ResultWriter writer;
  writer.begin_batch(*batch);
  writer.begin_job(0);
  writer.replace_output(std::string(200'000, 'x'));
  writer.end_job(JobStatus::kCrashed, facts);
  writer.end_batch();
  batch->results().read(0, 1, [](const ResultRow& row) {
    EXPECT_EQ(row.status, JobStatus::kCrashed);
    EXPECT_EQ(row.output, std::string(1024, 'x'));
    EXPECT_EQ(decode_facts(row.facts).value_or(JobFacts{}).worker, "processes/3");
    return true;
  });
  EXPECT_EQ(batch->status().rows, 1U);
}

}  // namespace
}  // namespace locksley

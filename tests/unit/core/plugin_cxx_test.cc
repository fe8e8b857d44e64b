// What a plugin in C++ says to its host: a host that keeps what it is told, and runs everything at
// once.
#include "core/plugin_cxx.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace locksley::plugin {
namespace {

// The context of the one job that there is, and what its host answers.
struct FakeJob : locksley_context {
  std::int32_t stop_reason = LOCKSLEY_GO_ON;
  std::int64_t time_left = -1;
  std::vector<std::uint64_t> slept;
  std::string output;
  std::string failure;
  std::int32_t answer = LOCKSLEY_OK;  // of write, spawn, wait and parallel_for
  int groups = 0;
};

FakeJob& job_of(const locksley_context* context) {
  return *static_cast<FakeJob*>(const_cast<locksley_context*>(context));
}
FakeJob& job_of(locksley_group* group) { return *static_cast<FakeJob*>(group->of_the_host[0]); }

std::int32_t fake_fail(locksley_context* context, locksley_text why) {
  job_of(context).failure = view(why);
  return LOCKSLEY_FAILED;
}

std::int32_t fake_loop(locksley_context* context, std::uint64_t low, std::uint64_t high, std::uint64_t grain,
                       locksley_body body, void* argument) {
  if (job_of(context).answer != LOCKSLEY_OK) return job_of(context).answer;
  for (const std::uint64_t step = grain == 0 ? 10 : grain; low < high; low += step) {
    const std::int32_t result = body(context, argument, low, std::min(low + step, high));
    if (result != LOCKSLEY_OK) return result;
  }
  return LOCKSLEY_OK;
}

std::int32_t fake_spawn(locksley_group* group, locksley_task task, const void* argument, std::size_t size) {
  if (job_of(group).answer != LOCKSLEY_OK) return job_of(group).answer;
  alignas(16) std::byte copy[LOCKSLEY_MOST_ARGUMENT];
  std::memcpy(copy, argument, size);
  return task(&job_of(group), copy);
}

const locksley_host kHost = {
    .abi = LOCKSLEY_PLUGIN_ABI,
    .size = sizeof(locksley_host),
    .index = [](const locksley_context*) { return std::uint64_t{7}; },
    .attempt = [](const locksley_context*) { return std::uint32_t{2}; },
    .batch_id = [](const locksley_context*) { return text("b1"); },
    .tenant = [](const locksley_context*) { return text("alice"); },
    .trace = [](const locksley_context*) { return locksley_text{nullptr, 0}; },
    .stop_reason = [](const locksley_context* context) { return job_of(context).stop_reason; },
    .time_left = [](const locksley_context* context) { return job_of(context).time_left; },
    .sleep = [](const locksley_context* context, std::uint64_t ns) { job_of(context).slept.push_back(ns); },
    .write = [](locksley_context* context, locksley_text bytes) -> std::int32_t {
      job_of(context).output += view(bytes);
      return job_of(context).answer;
    },
    .fail = fake_fail,
    .failure = [](const locksley_context* context) { return text(job_of(context).failure); },
    .group_begin =
        [](locksley_context* context, locksley_group* group) {
          group->of_the_host[0] = &job_of(context);
          ++job_of(context).groups;
        },
    .group_end = [](locksley_group* group) { --job_of(group).groups; },
    .spawn = fake_spawn,
    .wait = [](locksley_group* group) { return job_of(group).answer; },
    .parallel_for = fake_loop,
};

class PluginCxxTest : public ::testing::Test {
 protected:
  PluginCxxTest() { fake.host = &kHost; }
  // Runs a handler as the host does.
  template <class Handler>
  std::int32_t run(const Handler& handler, std::string_view payload = "payload") {
    return Functions<Handler>::run(const_cast<Handler*>(&handler), &fake, text(payload));
  }
  FakeJob fake;
};

TEST_F(PluginCxxTest, AJobKnowsItsPlaceAndItsPayload) {
  EXPECT_EQ(run([](Job& job, std::string_view payload) {
              EXPECT_EQ(payload, "payload");
              EXPECT_EQ(job.index(), 7u);
              EXPECT_EQ(job.attempt(), 2u);
              EXPECT_EQ(job.batch_id(), "b1");
              EXPECT_EQ(job.tenant(), "alice");
              EXPECT_EQ(job.trace(), "");
              job.write("out");
              job.write("put");
            }),
            LOCKSLEY_OK);
  EXPECT_EQ(fake.output, "output");
}

TEST_F(PluginCxxTest, AJobShouldStopWhenTheHostSaysSo) {
  Job job(fake);
  EXPECT_FALSE(job.should_stop());
  EXPECT_EQ(job.stop_reason(), StopReason::kNone);
  job.give_up();
  EXPECT_EQ(job.outcome(), LOCKSLEY_OK) << "it was not asked to stop";
  fake.stop_reason = LOCKSLEY_TIMED_OUT;
  EXPECT_TRUE(job.should_stop());
  EXPECT_EQ(job.stop_reason(), StopReason::kTimeout);
  job.give_up();
  EXPECT_EQ(job.outcome(), LOCKSLEY_GAVE_UP);
}

TEST_F(PluginCxxTest, TimeWithoutALimitIsForeverAndTimeThatIsUpIsNone) {
  const Context context(fake);
  EXPECT_EQ(context.time_left(), std::chrono::nanoseconds::max());
  fake.time_left = 0;
  EXPECT_EQ(context.time_left(), std::chrono::nanoseconds(0));
  fake.time_left = 5;
  EXPECT_EQ(context.time_left(), std::chrono::nanoseconds(5));
}

TEST_F(PluginCxxTest, OnlyAPositiveTimeIsSlept) {
  const Context context(fake);
  context.sleep_for(std::chrono::nanoseconds(-1));
  context.sleep_for(std::chrono::nanoseconds(0));
  context.sleep_for(std::chrono::microseconds(1));
  EXPECT_EQ(fake.slept, std::vector<std::uint64_t>{1000});
}

TEST_F(PluginCxxTest, WhatAHandlerThrowsIsItsJobsFailure) {
  EXPECT_EQ(run([](Job&, std::string_view) { throw std::runtime_error("no luck"); }), LOCKSLEY_FAILED);
  EXPECT_EQ(fake.failure, "no luck");
  EXPECT_EQ(run([](Job&, std::string_view) { throw 7; }), LOCKSLEY_FAILED);
  EXPECT_EQ(fake.failure, "the handler threw something that is no std::exception");
  EXPECT_EQ(run([](Job& job, std::string_view) { job.fail("said so"); }), LOCKSLEY_FAILED);
  EXPECT_EQ(fake.failure, "said so");
}

TEST_F(PluginCxxTest, WhatTheHostCannotDoIsThrownInItsWords) {
  fake.answer = LOCKSLEY_FAILED;
  fake.failure = "too long";
  Job job(fake);
  EXPECT_THROW(job.write("x"), HostError);
  EXPECT_THROW(job.parallel_for(0, 1, [](std::uint64_t) {}), HostError);
  TaskGroup group(job);
  EXPECT_THROW(group.wait(), HostError);
  EXPECT_THROW(group.spawn([](Context&) {}), HostError);
  EXPECT_THROW(group.spawn([held = std::string(100, 'x')](Context&) {}), HostError);
}

TEST_F(PluginCxxTest, SubJobsSmallAndLargeRunAndTheFirstExceptionIsThrownOnce) {
  Job job(fake);
  std::string seen;
  {
    TaskGroup group(job);
    EXPECT_EQ(fake.groups, 1);
    group.spawn([&seen](Context& context) { seen += std::string(context.batch_id()); });
    group.spawn([&seen, held = std::string(100, 'x')](Context&) { seen += held.substr(0, 2); });
    group.wait();
    EXPECT_EQ(seen, "b1xx");
    group.spawn([](Context&) { throw std::runtime_error("first"); });
    group.spawn([](Context&) { throw std::runtime_error("second"); });
    try {
      group.wait();
      ADD_FAILURE() << "nothing was thrown";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "first");
    }
    EXPECT_NO_THROW(group.wait()) << "it was thrown before";
  }
  EXPECT_EQ(fake.groups, 0);
}

TEST_F(PluginCxxTest, ALoopVisitsEveryIndexOnceWhateverItsBodyTakes) {
  Job job(fake);
  std::vector<int> visits(25);
  job.parallel_for(3, 25, [&](std::uint64_t i) { ++visits[i]; });
  job.parallel_for(
      3, 25,
      [&](IndexRange piece) {
        for (std::uint64_t i = piece.low; i < piece.high; ++i) ++visits[i];
      },
      4);
  job.parallel_for(3, 25, [&](Context& context, IndexRange piece) {
    EXPECT_EQ(context.index(), 7u);
    for (std::uint64_t i = piece.low; i < piece.high; ++i) ++visits[i];
  });
  for (std::size_t i = 0; i < visits.size(); ++i) EXPECT_EQ(visits[i], i < 3 ? 0 : 3) << i;
}

TEST_F(PluginCxxTest, WhatALoopsBodyThrowsIsThrownByTheLoop) {
  Job job(fake);
  int visits = 0;
  EXPECT_THROW(job.parallel_for(0, 100,
                                [&](std::uint64_t i) {
                                  ++visits;
                                  if (i == 12) throw std::out_of_range("twelve");
                                }),
               std::out_of_range);
  EXPECT_EQ(visits, 13) << "the rest was dropped";
}

// ---- Plugins of a class ----

struct Prefix {
  explicit Prefix(Setup& setup) : prefix(setup.handler()) {
    if (prefix.empty()) throw std::invalid_argument("a handler needs a name");
  }
  void operator()(Job& job, std::string_view payload) const { job.write(prefix + std::string(payload)); }
  std::string prefix;
};

struct FakeSetup : locksley_setup {
  std::string failure;
};

TEST_F(PluginCxxTest, AClassIsMadeOnceRunsJobsAndIsDestroyed) {
  const locksley_plugin plugin = describe<Prefix>("prefix", "puts its name before");
  EXPECT_EQ(plugin.abi, LOCKSLEY_PLUGIN_ABI);
  EXPECT_EQ(plugin.size, sizeof(locksley_plugin));
  EXPECT_EQ(view(plugin.name), "prefix");
  EXPECT_EQ(view(plugin.description), "puts its name before");
  FakeSetup setup{};
  setup.fail = [](locksley_setup* told, locksley_text why) -> std::int32_t {
    static_cast<FakeSetup*>(told)->failure = view(why);
    return LOCKSLEY_FAILED;
  };
  void* state = nullptr;
  EXPECT_EQ(plugin.init(&setup, &state), LOCKSLEY_FAILED);
  EXPECT_EQ(setup.failure, "a handler needs a name");
  setup.handler = text("my-");
  ASSERT_EQ(plugin.init(&setup, &state), LOCKSLEY_OK);
  EXPECT_EQ(plugin.run(state, &fake, text("job")), LOCKSLEY_OK);
  EXPECT_EQ(fake.output, "my-job");
  plugin.teardown(state);
}

}  // namespace
}  // namespace locksley::plugin

// Handlers that are plugins: which are refused at the start and why; jobs, through the ABI, on a
// real pool.
#include "daemon/handlers/plugin.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>
#include <utility>

#include "core/batch/payload.h"
#include "daemon/handlers/builtins.h"
#include "tests/support/own_path.h"
#include "tests/support/pool_fixture.h"

namespace locksley::daemon {
namespace {

using locksley::testing::PoolFixture;
using locksley::testing::Row;
using locksley::testing::rows_of;
using locksley::testing::wait_until;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using namespace std::chrono_literals;

std::string plugin_path(const std::string& name) {
  return std::string(LOCKSLEY_TEST_PLUGINS) + "/" + name + ".so";
}

std::map<std::string, config::Handler> handlers_of(const std::map<std::string, std::string>& plugins) {
  std::map<std::string, config::Handler> handlers;
  for (const auto& [name, path] : plugins) handlers[name].plugin = path;
  return handlers;
}

// The error for a single plugin, of the handler "h".
std::string refusal_of(const std::string& path) {
  const auto loaded = load_plugins(handlers_of({{"h", path}}), {});
  if (loaded) return "it was loaded";
  return loaded.error().size() == 1 ? loaded.error().front() : "several sentences";
}

TEST(PluginLoadTest, AFileThatIsNotThereIsNamedWithWhereItWasSought) {
  EXPECT_EQ(refusal_of("/nowhere/at/all.so"), "handlers.h.plugin: /nowhere/at/all.so: there is no such file");
  const std::string here = std::filesystem::current_path() / "missing.so";
  EXPECT_EQ(refusal_of("./missing.so"), "handlers.h.plugin: ./missing.so: there is no file " + here +
                                            "; a relative path starts at the working directory");
  EXPECT_THAT(refusal_of("missing.so"), HasSubstr("there is no file " + here));
}

TEST(PluginLoadTest, AFileThatIsNoSharedObjectIsRefusedWithTheLinkersReason) {
  const locksley::testing::OwnPath file("no_object.so");
  const std::string& text = file.text();
  std::ofstream(text) << "not an object, though it is long enough to have had a header of some kind";
  EXPECT_EQ(refusal_of(text),
            "handlers.h.plugin: " + text +
                ": cannot be loaded: invalid ELF header. A plugin is a shared object for this "
                "machine, linked with everything that it uses");
  EXPECT_THAT(refusal_of(::testing::TempDir()), HasSubstr("cannot be loaded: "));
}

TEST(PluginLoadTest, EachFaultHasItsOwnSentence) {
  const auto expect = [](const std::string& name, const std::string& sentence) {
    EXPECT_THAT(refusal_of(plugin_path(name)),
                AllOf(StartsWith("handlers.h.plugin: " + plugin_path(name) + ": "), HasSubstr(sentence)));
  };
  expect("no_entry",
         "exports no function locksley_plugin_entry, so it is no plugin: define it with LOCKSLEY_PLUGIN");
  expect("other_version",
         "it was built for version 2 of the plugin ABI, and this program has version 1: build it again");
  expect("too_small", "set `size` to sizeof(locksley_plugin)");
  expect("no_run", "its description has no function `run`");
  expect("no_description", "locksley_plugin_entry() returns no description");
  expect("init_fails", "its init failed: there is no market today");
  expect("init_is_silent", "its init failed: it does not say why");
  expect("unresolved", "undefined symbol: a_function_that_is_nowhere");
}

TEST(PluginLoadTest, TablesMayGrowWithoutANewVersion) {
  EXPECT_EQ(refusal_of(plugin_path("later")), "it was loaded");
  locksley_host older{};
  older.size = offsetof(locksley_host, parallel_for);
  EXPECT_TRUE(LOCKSLEY_HAS(&older, wait));
  EXPECT_FALSE(LOCKSLEY_HAS(&older, parallel_for));
}

TEST(PluginLoadTest, AllThatIsWrongIsSaidAtOnce) {
  const auto loaded = load_plugins(handlers_of({{"a", plugin_path("no_entry")},
                                                {"b", plugin_path("in_c")},
                                                {"echo", plugin_path("in_c")},
                                                {"refused", plugin_path("in_cxx")}}),
                                   register_builtins());
  ASSERT_FALSE(loaded);
  EXPECT_THAT(loaded.error(),
              ElementsAre(StartsWith("handlers.a.plugin: "),
                          "handlers.echo: " + plugin_path("in_c") +
                              ": a handler of this name is built in; give the plugin's another",
                          "handlers.refused.plugin: " + plugin_path("in_cxx") +
                              ": its init failed: this name is refused"));
}

TEST(PluginLoadTest, HandlersOfOtherKindsAreLeftAlone) {
  std::map<std::string, config::Handler> handlers = handlers_of({{"p", plugin_path("in_c")}});
  handlers["lines"].command = {"wc", "-l"};
  const auto loaded = load_plugins(handlers, {});
  ASSERT_TRUE(loaded);
  ASSERT_EQ(loaded->size(), 1u);
  EXPECT_EQ(loaded->front()->handler().name(), "p");
  EXPECT_EQ(loaded->front()->handler().description(), "is written in C");
}

TEST(PluginLoadTest, ARelativePathStartsAtTheWorkingDirectory) {
  const auto loaded = load_plugins(handlers_of({{"p", std::filesystem::relative(plugin_path("in_c"))}}), {});
  ASSERT_TRUE(loaded) << loaded.error().front();
}

TEST(PluginLoadTest, EachHandlerIsTakenDownOnce) {
  const locksley::testing::OwnPath own("torn_down");
  const std::string& file = own.text();
  ASSERT_EQ(::setenv("LOCKSLEY_TEST_TEARDOWN", file.c_str(), 1), 0);
  {
    const auto loaded =
        load_plugins(handlers_of({{"one", plugin_path("in_c")}, {"two", plugin_path("in_c")}}), {});
    ASSERT_TRUE(loaded);
    EXPECT_FALSE(std::filesystem::exists(file));
  }
  ::unsetenv("LOCKSLEY_TEST_TEARDOWN");
  std::ifstream in(file);
  const std::vector<std::string> lines{std::istream_iterator<std::string>(in), {}};
  EXPECT_THAT(lines, ::testing::UnorderedElementsAre("one", "two"));
}

class PluginJobsTest : public PoolFixture {
 protected:
  PluginJobsTest()
      : plugins_(
            load_plugins(handlers_of({{"c", plugin_path("in_c")}, {"cxx", plugin_path("in_cxx")}}), {})) {
    if (!plugins_) throw std::runtime_error(plugins_.error().front());
  }

  std::shared_ptr<Batch> submit(const std::string& name, std::vector<std::string> payloads,
                                BatchOptions options = {}) {
    const std::uint64_t jobs = payloads.size();
    Handler& handler = (*plugins_)[name == "c" ? 0 : 1]->handler();
    auto batch = make(handler, std::make_unique<StringPayloads>(std::move(payloads)), std::move(options));
    lane.submit(batch, jobs, /*open=*/false);
    return batch;
  }

  std::vector<Row> rows_after(const Batch& batch) {
    wait_over(batch);
    std::vector<Row> rows = rows_of(batch);
    std::ranges::sort(rows, {}, &Row::index);
    return rows;
  }

  // The result of a single job.
  Row run(const std::string& name, const std::string& payload, BatchOptions options = {}) {
    return rows_after(*submit(name, {payload}, std::move(options))).at(0);
  }

  const std::expected<PluginHandlers, std::vector<std::string>> plugins_;
};

Row ok(std::string output) { return {0, JobStatus::kOk, std::move(output)}; }
Row error(std::string text) { return {0, JobStatus::kError, std::move(text)}; }

TEST_F(PluginJobsTest, BytesPassBothWaysUnchanged) {
  const std::string bytes("\0\r\n\xff", 4);
  EXPECT_EQ(run("c", "echo " + bytes), ok(bytes));
  EXPECT_EQ(run("c", "echo "), ok(""));
  EXPECT_EQ(run("cxx", ""), ok(""));
  EXPECT_EQ(run("cxx", std::string(1'000'000, 'x')), ok(std::string(1'000'000, 'x')));
}

TEST_F(PluginJobsTest, AJobKnowsItsPlace) {
  BatchOptions options;
  options.id = "b1";
  options.tenant = "robin";
  options.trace = "00-0af7-b7ad-01";
  const auto rows = rows_after(*submit("c", {"describe", "describe"}, options));
  EXPECT_EQ(rows[0], ok("c 0 1 b1 robin 00-0af7-b7ad-01"));
  EXPECT_EQ(rows[1].output, "c 1 1 b1 robin 00-0af7-b7ad-01");
  EXPECT_EQ(run("cxx", "handler"), ok("cxx"));
}

TEST_F(PluginJobsTest, AFailureIsTheJobsErrorInPlaceOfItsOutput) {
  EXPECT_EQ(run("c", "fail"), error("as asked"));
  EXPECT_EQ(run("c", "silent"), error("the plugin failed without giving a reason"));
  EXPECT_EQ(run("cxx", "fail"), error("failed as asked"));
  EXPECT_EQ(run("cxx", "throw"), error("thrown as asked"));
  EXPECT_EQ(run("cxx", "throw int"), error("the handler threw something that is no std::exception"));
}

TEST_F(PluginJobsTest, SubJobsAreSpawnedAndWaitedFor) {
  EXPECT_EQ(run("c", "fib 20"), ok("6765"));
  EXPECT_EQ(run("cxx", "fib"), ok("6765"));
  EXPECT_EQ(run("cxx", "closures"), ok("5060 1"));
}

TEST_F(PluginJobsTest, AFailureBelowReachesWhoeverWaits) {
  EXPECT_EQ(run("c", "task fails"), error("from below"));
  EXPECT_EQ(run("c", "task is silent"), error("the plugin failed without giving a reason"));
  EXPECT_EQ(run("c", "task is forgiven"), ok("from below"));
  EXPECT_EQ(run("c", "seven"), error("seven"));
  EXPECT_EQ(run("cxx", "flood"), ok("flood 7 after 100, then 101"));
  EXPECT_EQ(run("cxx", "flood of a job"), error("the water rises"));
}

TEST_F(PluginJobsTest, WhatTheAbiForbidsIsRefused) {
  EXPECT_EQ(run("c", "task writes"), error("only the job itself can write: this is a sub-job or a loop"));
  EXPECT_EQ(run("c", "large argument"), error("a sub-job's argument is larger than LOCKSLEY_MOST_ARGUMENT"));
  EXPECT_EQ(run("c", "give up"), error("the plugin gave up although it was not asked to stop"));
}

TEST_F(PluginJobsTest, LoopsVisitEachIndexOnce) {
  EXPECT_EQ(run("c", "loop 100000"), ok("100000"));
  EXPECT_EQ(run("cxx", "loops"), ok("1000 500"));
}

// A pipe into which a job of a plugin writes a byte when it has begun. A batch's status counts a
// job as running from the moment when a worker claims it, and drops it when the batch is cancelled
// before it has begun.
class BegunSign {
 public:
  BegunSign() {
    if (::pipe2(ends_, O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "pipe2");
  }
  ~BegunSign() {
    for (const int end : ends_) ::close(end);
  }
  BegunSign(const BegunSign&) = delete;
  BegunSign& operator=(const BegunSign&) = delete;

  // What the payload has behind its word.
  std::string fd() const { return std::to_string(ends_[1]); }
  void await() const {
    pollfd readable{.fd = ends_[0], .events = POLLIN, .revents = 0};
    ASSERT_EQ(::poll(&readable, 1, 30'000), 1) << "timed out waiting until the job has begun";
  }

 private:
  int ends_[2] = {-1, -1};
};

TEST_F(PluginJobsTest, CancellationIsSeenByJobsAndLoops) {
  using Case = std::pair<std::string, std::string>;
  for (const auto& [plugin, payload] :
       {Case{"c", "linger "}, Case{"cxx", "linger "}, Case{"cxx", "endless loop "}}) {
    const BegunSign begun;
    const auto batch = submit(plugin, {payload + begun.fd()});
    begun.await();
    lane.cancel(*batch, "a test");
    EXPECT_EQ(rows_after(*batch).at(0), (Row{0, JobStatus::kCancelled, "cancelled"}))
        << plugin << ": " << payload;
  }
  EXPECT_EQ(run("cxx", "give up"), ok("went on")) << "nobody asked it to";
}

TEST_F(PluginJobsTest, ATimeLimitIsSeenByJobsAndLoops) {
  BatchOptions limited;
  limited.timeout = 20ms;
  const Row timed_out = {0, JobStatus::kTimeout, "timed out"};
  EXPECT_EQ(run("c", "linger", limited), timed_out);
  EXPECT_EQ(run("cxx", "linger", limited), timed_out);
  EXPECT_EQ(run("cxx", "endless loop", limited), timed_out);
}

TEST_F(PluginJobsTest, ManyAtOnceDoNotMixTheirOutputs) {
  std::vector<std::string> payloads;
  payloads.reserve(2000);
  for (int i = 0; i < 2000; ++i) {
    payloads.push_back(i % 20 == 0 ? "fib 10" : i % 20 == 1 ? "task fails" : "echo " + std::to_string(i));
  }
  const auto rows = rows_after(*submit("c", std::move(payloads)));
  ASSERT_EQ(rows.size(), 2000u);
  for (const Row& row : rows) {
    EXPECT_EQ(row.output, row.index % 20 == 0   ? "55"
                          : row.index % 20 == 1 ? "from below"
                                                : std::to_string(row.index));
  }
}

}  // namespace
}  // namespace locksley::daemon

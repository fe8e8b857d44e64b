// A program that is run to its end: what is returned of it, and that nothing it leaves behind is
// waited for.
#include "daemon/process/run_to_end.h"

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <string>

namespace locksley::daemon {
namespace {

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

constexpr auto kDeadline = 30s;

RunEnd run(const std::string& script, std::chrono::milliseconds limit = kDeadline) {
  SpawnRequest request;
  request.arguments = {"/bin/sh", "-c", script};
  request.environment = {"PATH=/usr/bin:/bin"};
  const auto end = run_to_end(request, -1, limit);
  EXPECT_TRUE(end);
  return end ? *end : RunEnd{};
}

TEST(RunToEndTest, ReturnsOutputAndEnd) {
  const RunEnd exited = run("echo said; cat; exit 3");
  EXPECT_EQ(exited.output, "said\n");
  EXPECT_TRUE(exited.has_exited && !exited.has_timed_out);
  EXPECT_EQ(exited.status, 3);
  const RunEnd killed = run("kill -KILL $$");
  EXPECT_FALSE(killed.has_exited);
  EXPECT_EQ(killed.status, SIGKILL);
}

TEST(RunToEndTest, WaitsForNothingThatIsLeftBehind) {
  const RunEnd in_group = run("sleep 1000 & echo $!");
  EXPECT_FALSE(in_group.has_timed_out);
  // One that has left the group lives on: it is this test that ends it.
  const RunEnd elsewhere = run("setsid sleep 1000 & echo $!");
  EXPECT_FALSE(elsewhere.has_timed_out);
  EXPECT_EQ(::kill(std::stoi(elsewhere.output), SIGKILL), 0);
}

TEST(RunToEndTest, KillsWhatTakesTooLong) {
  EXPECT_TRUE(run("sleep 1000", 50ms).has_timed_out);
  EXPECT_TRUE(run("exec >&-; sleep 1000", 50ms).has_timed_out);
  EXPECT_TRUE(run("yes", 50ms).has_timed_out);
}

TEST(RunToEndTest, KeepsTheBeginningOfTheOutput) {
  const RunEnd end = run("echo first; yes | head -c 3000000");
  EXPECT_TRUE(end.has_exited);
  EXPECT_EQ(end.output.size(), kMostRunOutput);
  EXPECT_TRUE(end.output.starts_with("first\ny\n"));
}

TEST(RunToEndTest, SaysWhyAProgramWasNotStarted) {
  SpawnRequest request;
  request.arguments = {"/no/such/program"};
  const auto end = run_to_end(request, -1, kDeadline);
  ASSERT_FALSE(end);
  EXPECT_EQ(end.error().step, KeeperReport::Step::kProgram);
  EXPECT_EQ(end.error().error, ENOENT);
}

}  // namespace
}  // namespace locksley::daemon

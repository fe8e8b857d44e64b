// Signals during `locksley run`. The daemon is a script.
#include <gmock/gmock.h>
#include <unistd.h>

#include <csignal>
#include <string>

#include "daemon/cli/context/commands.h"
#include "daemon/cli/context/context.h"
#include "tests/support/fake_server.h"

namespace locksley::cli {
namespace {

using namespace locksley::testing::fake;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(CliRunTest, ASecondSignalBeforeTheReplyToCancelLeavesTheOutcomeOpen) {
  Signals signals{SIGUSR2};  // as SIGTERM, of which the test program has its own use
  FakeServer server([](const Words& words) {
    if (words[0] == "SUBMIT") return Answer::text("$1\r\nb\r\n");
    if (words[0] == "RESULTS" || words[0] == "CANCEL") ::kill(::getpid(), SIGUSR2);
    return Answer::silence();
  });
  Context context({}, {server.address()}, signals);
  RunArguments arguments{.submit = {.handler = "h", .has_new_id = true, .payloads = {.arguments = {"x"}}}};
  arguments.submit.batch.id = "b";
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(run_run(context, arguments), 128 + SIGUSR2);
  const std::string told = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(told, HasSubstr("batch b may be cancelled"));
  EXPECT_THAT(told, HasSubstr("locksley status b"));
  EXPECT_THAT(told, Not(HasSubstr("left as it is")));
}

}  // namespace
}  // namespace locksley::cli

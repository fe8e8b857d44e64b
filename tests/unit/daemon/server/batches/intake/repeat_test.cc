// Commands with the id of a batch that exists.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/support/server_fixture.h"

namespace locksley::daemon {
namespace {

using testing::StartsWith;

class RepeatTest : public ServerFixture {};

// A program that does not count its jobs by itself would else add some of them twice.
TEST_F(RepeatTest, AStreamThatHasJobsIsNotOpenedAgainButGoesOnByAddat) {
  start();
  Client client(port_);
  const std::string exists =
      "-EXISTS a batch with the id 's' exists already: it has jobs, or was closed; "
      "to go on with it, send ADDAT and CLOSE";
  for (int i = 0; i < 2; ++i) {
    client.send("OPEN echo ID s\r\n");
    EXPECT_EQ(client.bulk(), "s") << "it has no job";
  }
  EXPECT_EQ(client.ask("ADDAT s 0 a b"), ":2");
  EXPECT_EQ(client.ask("OPEN echo ID s"), exists);
  EXPECT_EQ(client.ask("ADDAT s 0 a b"), ":2");
  EXPECT_EQ(client.ask("ADDAT s 2 c"), ":3");
  EXPECT_EQ(client.ask("CLOSE s"), ":3");
  EXPECT_EQ(client.ask("OPEN echo ID s"), exists);
  EXPECT_EQ(client.ask("ADDAT s 0 a b"), ":3");
  EXPECT_EQ(client.ask("CLOSE s"), ":3");
  EXPECT_THAT(client.ask("ADDAT s 3 d"), StartsWith("-CLOSED "));
}

TEST_F(RepeatTest, AnIdThatIsInUseIsRefusedWithWhatDiffers) {
  start();
  Client client(port_);
  client.send("OPEN echo ID o\r\nSUBMIT echo ID s JOBS a\r\n");
  EXPECT_EQ(client.bulk(), "o");
  EXPECT_EQ(client.bulk(), "s");
  const std::string opened = "-EXISTS a batch with the id 'o' exists already: ";
  const std::string submitted = "-EXISTS a batch with the id 's' exists already: ";
  EXPECT_EQ(client.ask("OPEN fail ID o"), opened + "its handler is 'echo'");
  EXPECT_EQ(client.ask("SUBMIT echo ID o JOBS a"), opened + "it was opened, not submitted");
  EXPECT_EQ(client.ask("SUBMIT echo ID o RANGE 7 7"), opened + "it was opened, not submitted");
  EXPECT_EQ(client.ask("OPEN echo ID s"), submitted + "it was submitted, not opened");
  EXPECT_EQ(client.ask("SUBMIT fail ID s JOBS a"), submitted + "its handler is 'echo'");
  EXPECT_EQ(client.ask("SUBMIT echo ID s JOBS b"), submitted + "it has other jobs");
  EXPECT_EQ(client.ask("RUN echo ID s JOBS a"), submitted + "a RUN runs its jobs each time");
}

}  // namespace
}  // namespace locksley::daemon

// Visitors of results that throw, or call the client.
#include <gmock/gmock.h>

#include <stdexcept>
#include <vector>

#include "proto/clients/cpp/client.h"
#include "tests/support/fake_server.h"

namespace locksley::client {
namespace {

using namespace locksley::testing::fake;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::SizeIs;

// Answers RESULTS with two rows, and STATUS.
Answer two_rows(const Words& words) {
  if (words[0] == "STATUS") return Answer::text(status_map("b", "done", 2, 2));
  return Answer::text(results_reply(0, {{0, "ok", "zero"}, {1, "ok", "one"}}));
}

TEST(ClientVisitorTest, AVisitorThatThrowsLeavesTheClientUsable) {
  FakeServer server(two_rows);
  Client client = Client::connect(server.address()).value();
  EXPECT_THROW((void)client.for_each_result("b", [](const ResultRow&) { throw std::out_of_range("mine"); }),
               std::out_of_range);
  for (int i = 0; i < 2; ++i) {
    const auto status = client.status("b");
    ASSERT_TRUE(status) << status.error().message;
    EXPECT_EQ(status->jobs, 2U);
  }
  EXPECT_EQ(server.connections(), 2);
}

TEST(ClientVisitorTest, AVisitorThatCallsItsClientIsRefusedAndSeesTheOtherRows) {
  FakeServer server(two_rows);
  Client client = Client::connect(server.address()).value();
  std::vector<ClientError::Kind> kinds;
  const auto read = client.for_each_result("b", [&](const ResultRow&) {
    const auto status = client.status("b");
    kinds.push_back(status ? ClientError::Kind::kProtocol : status.error().kind);
  });
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_THAT(kinds, AllOf(SizeIs(2), Each(ClientError::Kind::kLocal)));
  EXPECT_TRUE(client.status("b"));
  EXPECT_EQ(server.connections(), 1);
}

}  // namespace
}  // namespace locksley::client

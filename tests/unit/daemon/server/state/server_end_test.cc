// The end of a server of which a batch is left: functions that wait on the I/O context hold
// batches, run no more, and are destroyed after the server.
#include <gtest/gtest.h>

#include <memory>

#include "daemon/server/records/batch_record.h"
#include "tests/support/server_fixture.h"

namespace locksley::daemon {
namespace {

class ServerEndTest : public ServerFixture {
 protected:
  ResultAccount& results() LOCKSLEY_REQUIRES(kIoThread) { return tenants_.account_of_all().results(); }
};

TEST_F(ServerEndTest, ABatchThatOutlivesTheServerRefundsItsResults) {
  start();
  {
    Client client(port_);
    EXPECT_EQ(client.ask("SUBMIT echo ID b JOBS result"), "$1");
    EXPECT_EQ(client.bulk(), "b");
    EXPECT_TRUE(client.ask("WAIT b").starts_with("*"));
  }
  stop();
  const ThreadRoleScope io_thread(kIoThread);
  BatchRecord* const found = server_->batches().registry().by_sequence(1);
  ASSERT_NE(found, nullptr);
  std::shared_ptr<BatchRecord> record = found->shared();
  results().set_limit(1);
  EXPECT_TRUE(results().is_full_and_awaited()) << "the refund calls the function of on_change()";
  server_.reset();
  EXPECT_NE(results().bytes(), 0U);
  record.reset();
  EXPECT_EQ(results().bytes(), 0U);
}

}  // namespace
}  // namespace locksley::daemon

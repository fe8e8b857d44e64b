// Deletions that clients wait for, as one that finds nothing sees them.
#include "daemon/server/batches/stored/awaited_deletions.h"

#include <gtest/gtest.h>

#include "daemon/base/loop/io_thread.h"

namespace locksley::daemon {
namespace {

TEST(AwaitedDeletionsTest, TheLastOneIsUnderWayUntilItsOutcome) {
  const ThreadRoleScope role(kIoThread);
  AwaitedDeletions deletions;
  deletions.put(0);
  EXPECT_EQ(deletions.last(), 0U) << "the store had nothing to delete";
  deletions.put(9);  // it follows a large write
  deletions.put(7);
  deletions.put(7);
  EXPECT_EQ(deletions.last(), 9U);
  deletions.settled({.up_to = 8, .error = {}});
  EXPECT_EQ(deletions.last(), 9U);
  deletions.settled({.up_to = 9, .error = {}});
  EXPECT_EQ(deletions.last(), 0U);
  EXPECT_EQ(deletions.failed(), 0U);
}

TEST(AwaitedDeletionsTest, TheLastOneThatFailedIsKnown) {
  const ThreadRoleScope role(kIoThread);
  AwaitedDeletions deletions;
  for (const Ticket ticket : {3U, 4U, 6U}) deletions.put(ticket);
  deletions.settled({.up_to = 5, .error = "the disk is full"});
  EXPECT_EQ(deletions.failed(), 4U);
  deletions.settled({.up_to = 6, .error = {}});
  EXPECT_EQ(deletions.failed(), 4U);
  deletions.settled({.up_to = 8, .error = "refused jobs of others"});
  EXPECT_EQ(deletions.failed(), 4U) << "no deletion was among them";
}

}  // namespace
}  // namespace locksley::daemon

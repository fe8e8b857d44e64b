#include "core/sync/thread_role.h"

#include <gtest/gtest.h>

#include <thread>

namespace locksley {
namespace {

TEST(ThreadRoleTest, AThreadHasTheRoleOfTheInnermostScope) {
  const ThreadRole io;
  const ThreadRole writer;
  EXPECT_FALSE(io.is_held());
  {
    const ThreadRoleScope outer(io);
    EXPECT_TRUE(io.is_held());
    EXPECT_FALSE(writer.is_held());
    {
      const ThreadRoleScope inner(writer);
      EXPECT_FALSE(io.is_held());
      EXPECT_TRUE(writer.is_held());
    }
    EXPECT_TRUE(io.is_held());
  }
  EXPECT_FALSE(io.is_held());
}

TEST(ThreadRoleTest, ARoleIsThatOfItsThreadAlone) {
  const ThreadRole role;
  const ThreadRoleScope scope(role);
  bool is_held_elsewhere = true;
  std::thread([&] { is_held_elsewhere = role.is_held(); }).join();
  EXPECT_FALSE(is_held_elsewhere);
  role.assert_held();
}

TEST(ThreadRoleDeathTest, AssertingARoleThatIsNotHeldEndsTheProcess) {
  const ThreadRole role;
  EXPECT_DEATH(role.assert_held(), "belongs to another thread");
}

}  // namespace
}  // namespace locksley

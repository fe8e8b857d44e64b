// Which folders the lines of /proc/self/cgroup stand for.
#include "daemon/base/machine/control_groups.h"

#include <gmock/gmock.h>

#include <sstream>
#include <string>
#include <vector>

namespace locksley::daemon {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> groups_of(const std::string& lines, std::string_view controller) {
  std::istringstream file(lines);
  std::vector<std::string> groups;
  visit_control_groups(file, controller,
                       [&](const std::filesystem::path& group) { groups.push_back(group.string()); });
  return groups;
}

TEST(ControlGroupsTest, AControllerIsNotOneWhoseNameBeginsLikeIt) {
  const std::string lines = "12:cpuset:/a\n7:cpuacct,cpu:/b\n5:memory:/c\n1:name=cpu:/d\n";
  EXPECT_THAT(groups_of(lines, "cpu"),
              ElementsAre("/sys/fs/cgroup/cpuacct,cpu/b", "/sys/fs/cgroup/cpuacct,cpu/"));
  EXPECT_THAT(groups_of(lines, "memory"), ElementsAre("/sys/fs/cgroup/memory/c", "/sys/fs/cgroup/memory/"));
  EXPECT_THAT(groups_of(lines, "mem"), IsEmpty());
}

TEST(ControlGroupsTest, VersionTwoHasOneGroupForAllControllers) {
  EXPECT_THAT(groups_of("0::/a/b\n", "cpu"),
              ElementsAre("/sys/fs/cgroup/a/b", "/sys/fs/cgroup/a", "/sys/fs/cgroup/"));
  EXPECT_THAT(groups_of("nonsense\n1:two\n", "cpu"), IsEmpty());
}

}  // namespace
}  // namespace locksley::daemon

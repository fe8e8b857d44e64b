// The control groups of this process, where a container's limits are.
#pragma once

#include <filesystem>
#include <functional>
#include <iosfwd>
#include <string_view>

namespace locksley::daemon {

// Calls `visit` with the folder of this process's control group and of each group above it, in both
// versions of control groups. `controller`: the name of a controller of version 1, for example
// "memory". Any thread. Reads a file of the kernel; without control groups, does not call `visit`.
void visit_control_groups(std::string_view controller,
                          const std::function<void(const std::filesystem::path&)>& visit);
// The same; `groups` has the lines of /proc/self/cgroup.
void visit_control_groups(std::istream& groups, std::string_view controller,
                          const std::function<void(const std::filesystem::path&)>& visit);

}  // namespace locksley::daemon

#include "daemon/base/machine/control_groups.h"

#include <algorithm>
#include <fstream>
#include <istream>
#include <ranges>
#include <string>

namespace locksley::daemon {

namespace fs = std::filesystem;

namespace {

// Whether `name` is one of the names, which commas separate: "cpu" is not one of "cpuset,cpuacct".
bool is_one_of(std::string_view name, std::string_view names) {
  return std::ranges::any_of(std::views::split(names, ','),
                             [name](auto one) { return std::ranges::equal(one, name); });
}

}  // namespace

void visit_control_groups(std::string_view controller, const std::function<void(const fs::path&)>& visit) {
  std::ifstream groups("/proc/self/cgroup");
  visit_control_groups(groups, controller, visit);
}

void visit_control_groups(std::istream& groups, std::string_view controller,
                          const std::function<void(const fs::path&)>& visit) {
  for (std::string line; std::getline(groups, line);) {
    // hierarchy:controllers:path
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool is_v2 = controllers.empty();
    if (!is_v2 && !is_one_of(controller, controllers)) continue;
    const fs::path root = is_v2 ? fs::path("/sys/fs/cgroup") : fs::path("/sys/fs/cgroup") / controllers;
    for (fs::path path = line.substr(second + 1);; path = path.parent_path()) {
      visit(root / path.relative_path());
      if (path == path.parent_path()) break;
    }
  }
}

}  // namespace locksley::daemon

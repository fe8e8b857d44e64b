#include "daemon/base/control_groups.h"

#include <fstream>
#include <string>

namespace locksley::daemon {

namespace fs = std::filesystem;

void visit_control_groups(std::string_view controller, const std::function<void(const fs::path&)>& visit) {
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    // hierarchy:controllers:path
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool is_v2 = controllers.empty();
    if (!is_v2 && controllers.find(controller) == std::string::npos) continue;
    const fs::path root = is_v2 ? fs::path("/sys/fs/cgroup") : fs::path("/sys/fs/cgroup") / controllers;
    for (fs::path path = line.substr(second + 1);; path = path.parent_path()) {
      visit(root / path.relative_path());
      if (path == path.parent_path()) break;
    }
  }
}

}  // namespace locksley::daemon

#include "daemon/process/keeper/children.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

namespace locksley::daemon {
namespace {

void append_from(const std::string& path, std::vector<pid_t>& children) {
  std::ifstream file(path);
  for (pid_t pid = 0; file >> pid;) children.push_back(pid);
}

}  // namespace

std::vector<pid_t> own_children() {
  std::vector<pid_t> result;
  append_from("/proc/thread-self/children", result);
  return result;
}

std::vector<pid_t> all_children() {
  std::vector<pid_t> result;
  std::error_code error;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task", error)) {
    append_from(thread.path().string() + "/children", result);
  }
  return result;
}

}  // namespace locksley::daemon

#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <system_error>

namespace locksley::testing {

// The path of a file or folder in the folder for temporary files that no other process uses: the
// same test may run several times at once. Whatever the test makes there is removed at the end.
class OwnPath {
 public:
  explicit OwnPath(const std::string& name)
      : path_(::testing::TempDir() + "locksley" + std::to_string(::getpid()) + "." + name) {}
  ~OwnPath() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  OwnPath(const OwnPath&) = delete;
  OwnPath& operator=(const OwnPath&) = delete;

  const std::string& text() const { return path_; }

 private:
  const std::string path_;
};

}  // namespace locksley::testing

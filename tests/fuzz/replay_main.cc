// Runs a fuzz target over files: those that are named, and all in the folders that are named. For
// compilers without libFuzzer, and for coverage.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/fuzz/target.h"

namespace {

std::vector<std::filesystem::path> files_of(int count, char** names) {
  std::vector<std::filesystem::path> files;
  for (int i = 1; i < count; ++i) {
    if (!std::filesystem::is_directory(names[i])) {
      files.emplace_back(names[i]);
      continue;
    }
    for (const auto& entry : std::filesystem::directory_iterator(names[i])) files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

}  // namespace

int main(int argc, char** argv) {
  const auto files = files_of(argc, argv);
  for (const auto& file : files) {
    std::ifstream stream(file, std::ios::binary);
    const std::string bytes(std::istreambuf_iterator<char>(stream), {});
    if (!stream) {
      std::fprintf(stderr, "cannot read %s\n", file.c_str());
      return 1;
    }
    // Said before, not after: where the process ends, this is the file.
    std::fprintf(stderr, "%s\n", file.c_str());
    // In memory of its own size, so that AddressSanitizer sees who reads beyond it.
    const std::vector<std::uint8_t> exact(bytes.begin(), bytes.end());
    if (LLVMFuzzerTestOneInput(exact.data(), exact.size()) != 0) return 1;
  }
  std::fprintf(stderr, "%zu inputs\n", files.size());
  return files.empty() ? 1 : 0;
}

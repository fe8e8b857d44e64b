#include "daemon/cli/names/result_files.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace locksley::cli {

using client::client_error;
using client::Expected;
using Kind = client::ClientError::Kind;

Expected<void> ResultFiles::begin() { return make_folder(paths_.folder()); }

Expected<void> ResultFiles::make_folder(const std::string& folder) {
  if (folder.empty() || folder == last_folder_) return {};
  std::error_code problem;
  std::filesystem::create_directories(folder, problem);
  if (problem) return client_error(Kind::kLocal, folder + ": cannot be made: " + problem.message());
  last_folder_ = folder;
  return {};
}

Expected<std::string> ResultFiles::write(std::uint64_t index, std::string_view name,
                                         std::string_view output) {
  auto path = paths_.path(index, name);
  if (!path) return path;
  if (auto made = make_folder(path->substr(0, path->rfind('/') + 1)); !made) {
    return std::unexpected(std::move(made.error()));
  }
  std::FILE* file = std::fopen(path->c_str(), "wb");
  const bool written = file != nullptr && std::fwrite(output.data(), 1, output.size(), file) == output.size();
  const int write_error = errno;
  if (file != nullptr && std::fclose(file) == 0 && written) return path;
  return client_error(Kind::kLocal, *path + ": " + std::strerror(written ? errno : write_error));
}

}  // namespace locksley::cli

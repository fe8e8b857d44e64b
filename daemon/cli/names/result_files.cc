#include "daemon/cli/names/result_files.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "daemon/cli/names/whole_file.h"

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
  if (auto written = write_whole_file(*path, output); !written)
    return std::unexpected(std::move(written.error()));
  return path;
}

}  // namespace locksley::cli

#include "daemon/store/open_attempt.h"

#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

namespace locksley::daemon {

namespace fs = std::filesystem;

OpenAttempt::OpenAttempt(std::string folder) : folder_(std::move(folder)), before_(list(folder_)) {}

OpenAttempt::Listing OpenAttempt::list(const std::string& folder) {
  Listing listing;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    listing.files.insert(entry.path().filename().string());
  }
  std::ifstream current(folder + "/CURRENT");
  std::getline(current, listing.manifest);
  return listing;
}

void OpenAttempt::clean_up() const {
  const Listing now = list(folder_);
  // A database that was being created, or is damaged, is left as it is.
  if (!before_.files.contains(before_.manifest) || !now.files.contains(now.manifest)) return;
  // Until CURRENT names another manifest, nothing refers to the attempt's tables and logs.
  const bool is_unused = now.manifest == before_.manifest;
  for (const std::string& name : now.files) {
    std::error_code error;
    const fs::path file = fs::path(folder_) / name;
    const bool is_new = !before_.files.contains(name);
    const bool is_old_manifest =
        name.starts_with("MANIFEST-") && name != now.manifest && (is_new || name == before_.manifest);
    const bool is_temporary = name.ends_with(".dbtmp") || name.starts_with("OPTIONS-");
    const bool is_table = name.ends_with(".sst") && is_unused;
    const bool is_log = name.ends_with(".log") && (is_unused || fs::file_size(file, error) == 0);
    if (is_old_manifest || (is_new && (is_temporary || is_table || is_log))) fs::remove(file, error);
  }
}

}  // namespace locksley::daemon

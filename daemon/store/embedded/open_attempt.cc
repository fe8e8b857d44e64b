#include "daemon/store/embedded/open_attempt.h"

#include <rocksdb/env.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <system_error>
#include <utility>

namespace locksley::daemon {

namespace fs = std::filesystem;

OpenAttempt::OpenAttempt(rocksdb::Env* env, std::string folder)
    : env_(env != nullptr ? env : rocksdb::Env::Default()),
      folder_(std::move(folder)),
      before_(list(folder_)) {}

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

bool OpenAttempt::is_on_disk(const std::string& manifest) const {
  std::unique_ptr<rocksdb::WritableFile> file;
  std::unique_ptr<rocksdb::Directory> folder;
  return env_->ReopenWritableFile(folder_ + "/" + manifest, &file, rocksdb::EnvOptions()).ok() &&
         file->Sync().ok() && file->Close().ok() && env_->NewDirectory(folder_, &folder).ok() &&
         folder->Fsync().ok();
}

void OpenAttempt::clean_up() const {
  const Listing now = list(folder_);
  // A database that was being created, or is damaged, is left as it is.
  if (!before_.files.contains(before_.manifest) || !now.files.contains(now.manifest)) return;
  // Until CURRENT names another manifest, nothing refers to the attempt's tables and logs.
  const bool is_unused = now.manifest == before_.manifest;
  // After a power loss CURRENT may name the manifest before again, unless it is known to be on the
  // disk.
  const bool is_switched = !is_unused && is_on_disk(now.manifest);
  for (const std::string& name : now.files) {
    std::error_code error;
    const fs::path file = fs::path(folder_) / name;
    const bool is_new = !before_.files.contains(name);
    const bool is_old_manifest = name.starts_with("MANIFEST-") && name != now.manifest &&
                                 (is_unused ? is_new : is_switched && name == before_.manifest);
    const bool is_temporary = name.ends_with(".dbtmp") || name.starts_with("OPTIONS-");
    const bool is_table = name.ends_with(".sst") && is_unused;
    const bool is_log = name.ends_with(".log") && (is_unused || fs::file_size(file, error) == 0);
    if (is_old_manifest || (is_new && (is_temporary || is_table || is_log))) {
      env_->DeleteFile(file.string()).PermitUncheckedError();
    }
  }
}

}  // namespace locksley::daemon

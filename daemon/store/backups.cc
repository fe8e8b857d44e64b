#include "daemon/store/backups.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/logger.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <utility>

#include "core/base/job.h"
#include "daemon/base/log/log_line.h"

namespace locksley::daemon {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kLongestName = 255;  // of a file system

std::string why(int error) { return std::generic_category().message(error); }

// Makes the folder, for its owner alone, if it does not exist; a new folder survives a power loss.
// Returns an errno; 0: the folder exists.
int make_folder(const std::string& path) {
  if (::mkdir(path.c_str(), S_IRWXU) != 0) return errno == EEXIST ? 0 : errno;
  const int above = ::open((path + "/..").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const int error = above < 0 || ::fsync(above) != 0 ? errno : 0;
  if (above >= 0) ::close(above);
  return error;
}

// A folder that is locked for as long as this lives: a value of one thread.
class LockedFolder {
 public:
  explicit LockedFolder(const std::string& path)
      : folder_(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    if (folder_ < 0 || ::flock(folder_, LOCK_EX | LOCK_NB) != 0) error_ = errno;
  }
  ~LockedFolder() {
    if (folder_ >= 0) ::close(folder_);
  }
  LockedFolder(const LockedFolder&) = delete;
  LockedFolder& operator=(const LockedFolder&) = delete;

  // As in errno; 0: the folder is locked; EWOULDBLOCK: another process has locked it.
  int error() const { return error_; }
  bool sync() const { return ::fsync(folder_) == 0; }

 private:
  const int folder_;
  int error_ = 0;
};

}  // namespace

std::string Backups::problem_of(std::string_view directory, std::string_view name) {
  if (directory.empty()) {
    return "ERR store.backup_directory is not set: the daemon makes backups only below it; set it in the "
           "configuration file, and reload";
  }
  if (name.empty() || name.size() > kLongestName || name.front() == '.' ||
      name.find('/') != std::string_view::npos || name.find('\0') != std::string_view::npos) {
    return fmt::format(
        "ERR BACKUP takes the name of a new folder in store.backup_directory ({}): without '/', not "
        "beginning with "
        "'.', and of 1 to {} bytes",
        directory, kLongestName);
  }
  return {};
}

std::expected<void, std::string> Backups::make(const std::string& directory, const std::string& name,
                                               Done done) {
  if (const std::string_view reason = engine_.why_no_copies(); !reason.empty()) {
    return std::unexpected(fmt::format("ERR {}", reason));
  }
  if (std::string problem = problem_of(directory, name); !problem.empty()) {
    return std::unexpected(std::move(problem));
  }
  {
    const MutexLock lock(mutex_);
    if (is_stopped_)
      return std::unexpected("ERR the daemon is shutting down: no backup was made; retry after its restart");
    if (is_making_) {
      return std::unexpected("ERR a backup is being made already: retry when it is done");
    }
    is_making_ = true;
  }
  try {
    // Waits for the thread of the last copy, which has nothing left to do.
    thread_ =
        std::jthread([this, directory, name, done = std::move(done)](const std::stop_token& stop) mutable {
          run(directory, name, stop, std::move(done));
        });
  } catch (const std::system_error& error) {
    const MutexLock lock(mutex_);
    is_making_ = false;
    return std::unexpected(fmt::format("ERR could not start a thread for the backup: {}", error.what()));
  }
  return {};
}

void Backups::stop() {
  {
    const MutexLock lock(mutex_);
    is_stopped_ = true;
  }
  thread_ = std::jthread();  // requests the stop of the last copy's thread, and waits for it
}

Backups::Stats Backups::stats() const {
  const MutexLock lock(mutex_);
  return stats_;
}

void Backups::run(const std::string& directory, const std::string& name, const std::stop_token& stop,
                  Done done) {
  const std::int64_t began_at = unix_milliseconds() / 1000;
  const Nanoseconds began = steady_now();
  Result result = copy(directory, name, stop);
  const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(steady_now() - began).count();
  if (result) {
    LogLine("store: backup made")
        .with("folder", *result)
        .with("took_ms", took)
        .write(*log_, spdlog::level::info);
  } else {
    LogLine("store: no backup was made")
        .with("directory", directory)
        .with("name", name)
        .with("error", result.error())
        .write(*log_, spdlog::level::warn);
  }
  {
    const MutexLock lock(mutex_);
    is_making_ = false;
    if (result) {
      ++stats_.made;
      stats_.last_made = began_at;
    } else if (result.error().starts_with("STORE ")) {
      ++stats_.failed;
    }
  }
  done(std::move(result));
}

Backups::Result Backups::copy(const std::string& directory, const std::string& name,
                              const std::stop_token& stop) {
  if (const int error = make_folder(directory); error != 0) {
    return std::unexpected(
        fmt::format("ERR cannot make store.backup_directory {}: {}", directory, why(error)));
  }
  const LockedFolder parent(directory);
  if (parent.error() == EWOULDBLOCK) {
    return std::unexpected(
        fmt::format("ERR another daemon makes a backup in {}: retry when it is done", directory));
  }
  if (parent.error() != 0) {
    return std::unexpected(
        fmt::format("ERR cannot use store.backup_directory {}: {}", directory, why(parent.error())));
  }
  const fs::path folder = fs::path(directory) / name;
  const fs::path unfinished = fs::path(directory) / kUnfinished;
  std::error_code error;
  if (fs::exists(fs::symlink_status(folder, error))) {
    return std::unexpected(
        fmt::format("ERR {} exists already: give the backup another name", folder.string()));
  }
  fs::remove_all(unfinished, error);  // left by a daemon that ended while it made a copy
  if (error) {
    return std::unexpected(fmt::format("STORE cannot remove {}: {}", unfinished.string(), error.message()));
  }
  std::string failure;
  if (const EngineDone copied = engine_.copy_to(unfinished.string(), stop); !copied) {
    failure = stop.stop_requested() ? "the daemon ends" : copied.error().what;
  }
  if (failure.empty()) {
    fs::rename(unfinished, folder, error);
    if (error) failure = error.message();
  }
  if (failure.empty() && !parent.sync()) {
    failure = why(errno);
    fs::rename(folder, unfinished, error);
  }
  if (failure.empty()) return folder.string();
  fs::remove_all(unfinished, error);
  return std::unexpected(fmt::format("STORE the backup {} was not made: {}", folder.string(), failure));
}

}  // namespace locksley::daemon

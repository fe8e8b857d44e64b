#include "daemon/store/embedded/store_access.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <deque>
#include <filesystem>
#include <initializer_list>
#include <system_error>
#include <utility>

namespace locksley::daemon {
namespace {

namespace fs = std::filesystem;

std::string words_of(int error) { return std::generic_category().message(error); }

bool names_one_of(std::string_view words, std::initializer_list<int> errors) {
  return std::ranges::any_of(
      errors, [&](int error) { return words.find(words_of(error)) != std::string_view::npos; });
}

std::string name_of(uid_t user) {
  std::array<char, 16 * 1024> buffer;
  passwd entry{};
  passwd* found = nullptr;
  ::getpwuid_r(user, &entry, buffer.data(), buffer.size(), &found);
  return found == nullptr ? std::to_string(user) : entry.pw_name;
}

StoreRefusal forbidden(const std::string& folder, const std::string& place, int error) {
  struct stat about{};
  const bool is_known = ::stat(place.c_str(), &about) == 0;
  const uid_t self = ::geteuid();
  const std::string remedy = is_known && about.st_uid == self
                                 ? fmt::format("`chmod -R u+rwX {}` permits it", folder)
                                 : fmt::format("as root, `chown -R {} {}` gives the whole store to that user",
                                               name_of(self), folder);
  return {
      .what = fmt::format(
          "the store {} cannot be used, so nothing was started and nothing was changed: {}: {}. It belongs "
          "to {}, and this process runs as {}: {}",
          folder, place, words_of(error), is_known ? name_of(about.st_uid) : "an unknown user", name_of(self),
          remedy),
      .lasts = true};
}

StoreRefusal refusal(const std::string& folder, const std::string& place, int error) {
  if (error == EACCES || error == EPERM) return forbidden(folder, place, error);
  const std::string words = words_of(error);
  return {fmt::format("the store {} cannot be read, so nothing was started and nothing was changed: {}: {}{}",
                      folder, place, words, advice_about(words, folder))};
}

// Descriptors, of which the oldest is closed for the next one.
class Descriptors {
 public:
  explicit Descriptors(std::size_t most) : most_(most) {}
  ~Descriptors() {
    for (const int each : held_) ::close(each);
  }
  Descriptors(const Descriptors&) = delete;
  Descriptors& operator=(const Descriptors&) = delete;

  // 0, or the system's error.
  int open(const std::string& path) {
    if (held_.size() == most_) {
      ::close(held_.front());
      held_.pop_front();
    }
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) return errno;
    held_.push_back(file);
    return 0;
  }

 private:
  const std::size_t most_;
  std::deque<int> held_;
};

bool may(const std::string& path, int how) {
  return ::faccessat(AT_FDCWD, path.c_str(), how, AT_EACCESS) == 0;
}
bool is_missing_permission(int error) { return error == EACCES || error == EPERM; }

}  // namespace

std::expected<void, StoreRefusal> make_store_folder(const std::string& folder) {
  fs::path path = fs::path(folder).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();  // it ended with '/'
  std::error_code error;
  if (fs::is_directory(path, error)) return {};
  error.clear();
  if (path.has_parent_path()) fs::create_directories(path.parent_path(), error);
  if (!error && ::mkdir(path.c_str(), S_IRWXU) != 0) error = {errno, std::generic_category()};
  if (!error) return {};
  return std::unexpected(
      StoreRefusal{.what = fmt::format("cannot create the store's folder {}: {}", folder, error.message()),
                   .lasts = is_missing_permission(error.value())});
}

bool is_open_to_others(const std::string& folder) {
  std::error_code failed;
  const fs::path whole = fs::canonical(folder, failed);
  if (failed) return false;
  for (fs::path path = whole;; path = path.parent_path()) {
    struct stat about{};
    if (::stat(path.c_str(), &about) != 0 || (about.st_mode & S_IXOTH) == 0) return false;
    if (path == path.parent_path()) return true;
  }
}

std::expected<void, StoreRefusal> check_access(const std::string& folder, Held held) {
  if (!may(folder, R_OK | W_OK | X_OK) && is_missing_permission(errno)) {
    return std::unexpected(forbidden(folder, folder, errno));
  }
  Descriptors files(static_cast<std::size_t>(held));
  std::error_code failed;
  for (fs::directory_iterator entry(folder, failed), end; !failed && entry != end; entry.increment(failed)) {
    const std::string path = entry->path().string();
    const std::string name = entry->path().filename().string();
    std::error_code ignored;
    if (!entry->is_regular_file(ignored)) continue;
    // A start locks one, and may cut the end off the other. The lock is not opened: to close it
    // would release it for the whole process.
    const bool is_lock = name == "LOCK";
    if ((is_lock || name.ends_with(".log")) && !may(path, R_OK | W_OK) && is_missing_permission(errno)) {
      return std::unexpected(forbidden(folder, path, errno));
    }
    if (is_lock) continue;
    const int error = files.open(path);
    if (error != 0 && error != ENOENT) return std::unexpected(refusal(folder, path, error));
  }
  if (failed && failed.value() != ENOENT && failed.value() != ENOTDIR) {
    return std::unexpected(refusal(folder, folder, failed.value()));
  }
  return {};
}

bool is_of_the_system(std::string_view words) {
  return names_one_of(words, {EACCES, EPERM, EMFILE, ENFILE, EIO, ENOMEM, ENOSPC, EDQUOT, EROFS});
}

bool is_forbidden(std::string_view words) { return names_one_of(words, {EACCES, EPERM}); }

std::string advice_about(std::string_view words, const std::string& folder) {
  if (is_forbidden(words)) {
    return fmt::format(
        ". This process runs as {}: as root, `chown -R {} {}` gives the whole store to that user",
        name_of(::geteuid()), name_of(::geteuid()), folder);
  }
  if (names_one_of(words, {EMFILE})) {
    return ". The process may not have so many descriptors: allow it more, with `ulimit -n` or LimitNOFILE "
           "of "
           "systemd";
  }
  if (names_one_of(words, {ENFILE})) {
    return ". The system has no descriptor left: `sysctl fs.file-nr` says how many are in use";
  }
  if (names_one_of(words, {EIO})) {
    return ". The disk failed, and `dmesg` may say how; if it cannot be mended, restore the store from a "
           "copy";
  }
  if (names_one_of(words, {ENOSPC, EDQUOT})) {
    return fmt::format(
        ". A start writes what is in the log once more, as tables, and needs room for that: make room on the "
        "file system of {}, as much as its *.log files have, and start the daemon again. Nothing is lost",
        folder);
  }
  return {};
}

}  // namespace locksley::daemon

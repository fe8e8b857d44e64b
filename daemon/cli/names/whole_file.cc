#include "daemon/cli/names/whole_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace locksley::cli {
namespace {

// Returns errno; 0: all is written.
int write_all(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t wrote = ::write(file, bytes.data(), bytes.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return errno;
    bytes.remove_prefix(static_cast<std::size_t>(wrote));
  }
  return 0;
}

}  // namespace

client::Expected<void> write_whole_file(const std::string& path, std::string_view bytes) {
  constexpr mode_t kMode = 0666;  // less the umask, as for every program
  const auto failed = [&path](const std::string& why) {
    return client::client_error(client::ClientError::Kind::kLocal, path + ": " + why);
  };
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, kMode);
  if (file < 0 && errno == ELOOP) return failed("is a symbolic link, which is not followed: remove it first");
  if (file < 0) return failed(std::strerror(errno));
  const int write_error = write_all(file, bytes);
  const int close_error = ::close(file) != 0 ? errno : 0;
  if (const int error = write_error != 0 ? write_error : close_error; error != 0) {
    return failed(std::strerror(error));
  }
  return {};
}

}  // namespace locksley::cli

#include "daemon/auth/token.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "daemon/auth/authorization.h"

namespace locksley::daemon {
namespace {

// An open file, closed by its destructor.
class File {
 public:
  explicit File(const std::string& name) : fd_(::open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int fd() const { return fd_; }

 private:
  const int fd_;
};

std::unexpected<std::string> problem(const std::string& file, std::string_view what) {
  return std::unexpected(fmt::format("{}: {}", file, what));
}

}  // namespace

std::expected<Secret, std::string> read_token(const std::string& file) {
  const File opened(file);
  struct stat status{};
  if (opened.fd() < 0 || ::fstat(opened.fd(), &status) != 0) return problem(file, std::strerror(errno));
  if (!S_ISREG(status.st_mode))
    return problem(file, "expected a file that holds the token, found something else");
  if ((status.st_mode & (S_IROTH | S_IWOTH)) != 0) {
    return problem(file,
                   "every user of this machine can read or change it; chmod o-rwx it, and make a new token");
  }
  std::string text(kLongestToken + 2, '\0');
  std::size_t size = 0;
  for (;;) {
    const ssize_t count = ::read(opened.fd(), text.data() + size, text.size() - size);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      const int error = errno;
      wipe(text);
      return problem(file, std::strerror(error));
    }
    if (count == 0) break;
    size += static_cast<std::size_t>(count);
  }
  while (size > 0 && std::string_view(" \t\r\n").find(text[size - 1]) != std::string_view::npos) --size;
  text.resize(size);
  const bool is_plain = is_token68(text);
  Secret token(std::move(text));
  if (size == 0) return problem(file, "it holds no token; `openssl rand -hex 32` makes one");
  if (!is_plain)
    return problem(file, "expected one line of letters, digits and -._~+/=, found other characters");
  if (size < kShortestToken) {
    return problem(
        file, fmt::format("expected {} characters at least, found {}; `openssl rand -hex 32` makes a token",
                          kShortestToken, size));
  }
  if (size > kLongestToken)
    return problem(file, fmt::format("expected {} characters at most, found more", kLongestToken));
  return token;
}

bool is_same(const Secret& token, std::string_view given) {
  const std::string_view expected = token.view();
  return expected.size() == given.size() && sodium_memcmp(expected.data(), given.data(), given.size()) == 0;
}

}  // namespace locksley::daemon

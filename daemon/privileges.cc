#include "daemon/privileges.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>

namespace locksley::daemon {
namespace {

constexpr mode_t kOwnerOnly = 0700;

std::string why() { return std::generic_category().message(errno); }

std::unexpected<std::string> refused(std::string_view name, std::string_view step) {
  return std::unexpected(fmt::format("process.user: cannot become '{}': {}: {}", name, step, why()));
}

// To the kernel, root is a set of capabilities.
bool has_capabilities() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> sets{};
  if (::syscall(SYS_capget, &header, sets.data()) != 0) return true;
  for (const __user_cap_data_struct& set : sets) {
    if (set.effective != 0 || set.permitted != 0) return true;
  }
  return false;
}

}  // namespace

void forbid_new_privileges(config::CoreDumps core_dumps) {
  ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (core_dumps == config::CoreDumps::kYes) return;
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE,
              &none);           // does not stop a core-dump handler that is a program
  ::prctl(PR_SET_DUMPABLE, 0);  // stops that, too, and tracing by other processes of the user
}

std::expected<Privileges, std::string> Privileges::make(const config::Process& settings) {
  Privileges result;
  if (settings.user.empty()) return result;
  std::array<char, 16 * 1024> buffer;
  passwd entry{};
  passwd* found = nullptr;
  ::getpwnam_r(settings.user.c_str(), &entry, buffer.data(), buffer.size(), &found);
  const auto refuse = [&](std::string_view reason) {
    return std::unexpected(fmt::format("process.user: {}", reason));
  };
  if (found == nullptr) return refuse(fmt::format("there is no user '{}' on this machine", settings.user));
  if (entry.pw_uid == 0) return refuse(fmt::format("'{}' is root: name an ordinary user", settings.user));
  if (::geteuid() != 0) {
    if (::getuid() == entry.pw_uid && ::geteuid() == entry.pw_uid) return result;
    return refuse(
        fmt::format("only root can become '{}': start the daemon as root, or as that user", settings.user));
  }
  result.drops_ = true;
  result.core_dumps_ = settings.core_dumps;
  result.name_ = settings.user;
  result.user_ = entry.pw_uid;
  result.group_ = entry.pw_gid;
  return result;
}

std::expected<void, std::string> Privileges::make_folder(const std::string& path) const {
  if (!drops_ || ::mkdir(path.c_str(), kOwnerOnly) != 0) return {};  // exists, or the store reports the error
  // By descriptor, and not through a link: the name may lead elsewhere by now.
  const int folder = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  const bool is_given = folder >= 0 && ::fchown(folder, user_, group_) == 0;
  const std::string reason = why();
  if (folder >= 0) ::close(folder);
  if (!is_given) return std::unexpected(fmt::format("{}: cannot be given to '{}': {}", path, name_, reason));
  return {};
}

std::expected<void, std::string> Privileges::drop() const {
  if (!drops_) return {};
  if (::initgroups(name_.c_str(), group_) != 0) return refused(name_, "its groups");
  if (::setresgid(group_, group_, group_) != 0) return refused(name_, "its group");
  if (::setresuid(user_, user_, user_) != 0) return refused(name_, "the user");
  // Asks the kernel, not the library.
  uid_t real = 0;
  uid_t effective = 0;
  uid_t saved = 0;
  ::getresuid(&real, &effective, &saved);
  const bool is_user =
      real == user_ && effective == user_ && saved == user_ && static_cast<uid_t>(::setfsuid(user_)) == user_;
  const bool comes_back = ::setuid(0) == 0 || ::seteuid(0) == 0 || (group_ != 0 && ::setgid(0) == 0);
  if (!is_user || comes_back || has_capabilities()) {
    return std::unexpected(fmt::format("process.user: '{}' could become root again", name_));
  }
  // The change of the user has switched core dumps off.
  if (core_dumps_ == config::CoreDumps::kYes) ::prctl(PR_SET_DUMPABLE, 1);
  return {};
}

}  // namespace locksley::daemon

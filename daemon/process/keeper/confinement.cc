#include "daemon/process/keeper/confinement.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <string_view>
#include <system_error>

namespace locksley::daemon {
namespace {

// As in linux/landlock.h; the distribution's header is older than the kernels on which the daemon
// may run.
constexpr std::uint64_t kExecute = 1U << 0;
constexpr std::uint64_t kWriteFile = 1U << 1;
constexpr std::uint64_t kReadFile = 1U << 2;
constexpr std::uint64_t kReadDir = 1U << 3;
constexpr std::uint64_t kRead = kExecute | kReadFile | kReadDir;
constexpr std::uint64_t kTruncate = 1U << 14;
constexpr std::uint64_t kIoctl = 1U << 15;
constexpr std::uint64_t kTcp = 3;    // to bind, to connect
constexpr std::uint64_t kScope = 3;  // abstract sockets and signals of processes outside
// The rights that a rule for a file, not a folder, may grant.
constexpr std::uint64_t kOfFiles = kExecute | kWriteFile | kReadFile | kTruncate | kIoctl;

struct Rules {
  std::uint64_t files;
  std::uint64_t network;  // from version 4
  std::uint64_t scope;    // from version 6
};
struct __attribute__((packed)) PathRule {
  std::uint64_t allowed;
  std::int32_t path;
};

// All rights that this version of Landlock knows.
std::uint64_t file_rights(long version) {
  std::uint64_t rights = (1U << 13) - 1;
  if (version >= 2) rights |= 1U << 13;
  if (version >= 3) rights |= kTruncate;
  if (version >= 5) rights |= kIoctl;
  return rights;
}

// `what`, followed by the system's text for errno.
ConfinementError failed(std::string_view what) {
  const int code = errno;
  return {fmt::format("{}: {}", what, std::generic_category().message(code)), code};
}

std::expected<void, ConfinementError> allow(int rules, const std::string& path, std::uint64_t rights) {
  const Descriptor descriptor(::open(path.c_str(), O_PATH | O_CLOEXEC));
  struct stat status{};
  if (descriptor.get() < 0 || ::fstat(descriptor.get(), &status) != 0) {
    return std::unexpected(failed(path));
  }
  const PathRule rule{S_ISDIR(status.st_mode) ? rights : rights & kOfFiles, descriptor.get()};
  constexpr int kPathBeneath = 1;
  if (::syscall(SYS_landlock_add_rule, rules, kPathBeneath, &rule, 0) != 0) {
    return std::unexpected(failed(path));
  }
  return {};
}

}  // namespace

std::expected<Descriptor, ConfinementError> make_confinement(const Confinement& confinement) {
  const long version = ::syscall(SYS_landlock_create_ruleset, nullptr, 0, 1);
  if (version < 1) return std::unexpected(failed("the kernel has no Landlock"));
  if (confinement.denies_network && version < 4) {
    return std::unexpected(
        ConfinementError{"the kernel's Landlock cannot deny the network: that needs Linux 6.7", ENOSYS});
  }
  const std::uint64_t rights = file_rights(version);
  const Rules wanted{.files = confinement.confines_files ? rights : 0,
                     .network = confinement.denies_network ? kTcp : 0,
                     .scope = version >= 6 ? kScope : 0};
  const std::size_t size = version >= 6 ? sizeof(Rules) : version >= 4 ? 16 : 8;
  Descriptor rules(static_cast<int>(::syscall(SYS_landlock_create_ruleset, &wanted, size, 0)));
  if (rules.get() < 0) return std::unexpected(failed("Landlock refuses the rules"));
  for (const auto& [paths, allowed] :
       {std::pair{&confinement.read, kRead & rights}, std::pair{&confinement.write, rights}}) {
    for (const std::string& path : *paths) {
      if (auto added = allow(rules.get(), path, allowed); !added)
        return std::unexpected(std::move(added.error()));
    }
  }
  return rules;
}

bool enter_confinement(int rules) { return ::syscall(SYS_landlock_restrict_self, rules, 0) == 0; }

}  // namespace locksley::daemon

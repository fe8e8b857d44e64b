// What the daemon asks its keeper for, and what the keeper reports: the messages between the two.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/process/confinement.h"

namespace locksley::daemon {

// How a program is started. Strings without NUL.
struct SpawnRequest {
  std::vector<std::string> arguments;    // program first; sought in `path` if its name has no slash
  std::vector<std::string> environment;  // NAME=value each; all that it gets
  std::string path;                      // folders, as in PATH
  std::string directory;                 // empty: as it is
  // What the kernel holds it to; 0: as it is.
  std::uint64_t cpu_seconds = 0;
  std::uint64_t memory_bytes = 0;
  std::uint64_t file_bytes = 0;
  std::uint64_t files = 0;
  std::uint64_t processes = 0;
  Confinement confinement;
  // As whom it runs, if changes_user.
  bool changes_user = false;
  std::uint32_t user = 0;
  std::uint32_t group = 0;
};

// The bytes of a request, and back. Decoding trusts nothing: none if they are not a request's.
std::string encode(const SpawnRequest& request);
std::expected<SpawnRequest, std::string> decode_spawn_request(std::string_view bytes);

// Before each message to the keeper: with a spawn, `size` bytes of a request follow, and descriptors come
// along, which become 0, 1, 2, … of the process.
struct KeeperOrder {
  enum class Kind : std::uint32_t { spawn, signal };
  Kind kind;
  std::uint32_t size;
  std::uint64_t process;  // as the daemon counts them
  std::int32_t signal;    // Kind::signal: to the process and its group
  std::uint32_t descriptors;
};
inline constexpr std::uint32_t kMostDescriptors = 4;
inline constexpr std::uint32_t kLargestRequest =
    8U << 20;  // arguments and environment: beyond, the kernel refuses it

// What became of a process; one message each.
struct KeeperReport {
  enum class Kind : std::uint32_t { started, failed, ended };
  // What could not be done.
  enum class Step : std::uint32_t {
    none,
    memory,
    group,
    user,
    limits,
    directory,
    confinement,
    descriptors,
    program
  };
  Kind kind;
  Step step;
  std::uint64_t process;
  std::int32_t pid;
  std::int32_t error;   // Kind::failed: errno
  std::int32_t exited;  // Kind::ended: 1 if it exited with `status`, 0 if signal `status` ended it
  std::int32_t status;
  std::int64_t cpu_us;      // that it used, with the children that it waited for
  std::int64_t memory_kib;  // at most at a time
};

}  // namespace locksley::daemon

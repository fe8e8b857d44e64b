// The messages between the daemon and its keeper.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/process/keeper/confinement.h"

namespace locksley::daemon {

// How to start a program. Strings contain no NUL.
struct SpawnRequest {
  std::vector<std::string> arguments;    // the program first; looked up in `path` if its name has no slash
  std::vector<std::string> environment;  // NAME=value each; nothing is inherited
  std::string path;                      // folders, as in PATH
  std::string directory;                 // empty: the keeper's
  // Limits that the kernel enforces; 0: unchanged.
  std::uint64_t cpu_seconds = 0;
  std::uint64_t memory_bytes = 0;
  std::uint64_t file_bytes = 0;
  std::uint64_t files = 0;
  std::uint64_t processes = 0;
  Confinement confinement;
  // If changes_user, the program runs as this user and group.
  bool changes_user = false;
  std::uint32_t user = 0;
  std::uint32_t group = 0;
};

// A request as bytes, and back. The decoder trusts nothing; its error says that the bytes are not a
// request.
std::string encode(const SpawnRequest& request);
std::expected<SpawnRequest, std::string> decode_spawn_request(std::string_view bytes);

// The head of each message to the keeper. In an order to spawn, `size` bytes of a request follow.
// The descriptors that become 0, 1, 2, … of the process travel with the head.
struct KeeperOrder {
  enum class Kind : std::uint32_t { kSpawn, kSignal };
  Kind kind;
  std::uint32_t size;
  std::uint64_t process;  // the number that the daemon has given to it
  std::int32_t signal;    // Kind::kSignal: to the process and its group
  std::uint32_t descriptors;
};
inline constexpr std::uint32_t kMostDescriptors = 4;
// In bytes. The kernel refuses arguments and an environment of this size.
inline constexpr std::uint32_t kLargestRequest = 8U << 20;

// A report about a process: that it was started, or was not, or that it has ended.
struct KeeperReport {
  enum class Kind : std::uint32_t { kStarted, kFailed, kEnded };
  // The step that failed.
  enum class Step : std::uint32_t {
    kNone,
    kMemory,
    kGroup,
    kUser,
    kLimits,
    kDirectory,
    kConfinement,
    kDescriptors,
    kProgram
  };
  Kind kind;
  Step step;
  std::uint64_t process;
  std::int32_t pid;
  std::int32_t error;   // Kind::kFailed: errno
  std::int32_t exited;  // Kind::kEnded: 1 if it exited with `status`, 0 if signal `status` ended it
  std::int32_t status;
  std::int64_t cpu_us;      // processor time, including children that it waited for
  std::int64_t memory_kib;  // the largest resident size at any time
};

}  // namespace locksley::daemon

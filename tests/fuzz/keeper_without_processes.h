// A keeper that starts nothing: what a program would have in its hands, the target has.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "daemon/process/io/process_pipes.h"

namespace locksley::fuzz {

// A program as the daemon sees it: the other ends of its pipes. Nothing waits.
class PretendedProcess {
 public:
  explicit PretendedProcess(std::array<int, 3> descriptors);

  // To its standard output (1) or standard error (2), as far as there is room; how much was taken.
  // The daemon may have closed the pipe, or the process.
  std::size_t write(int descriptor, std::string_view bytes);
  // What has come on its standard input.
  std::string read();
  void close(int descriptor) { ends_[static_cast<std::size_t>(descriptor)].close(); }

 private:
  std::array<daemon::Descriptor, 3> ends_;
};

// What the KeeperLink of this program, in keeper_without_processes.cc, knows: it takes the place of
// daemon/process' own when the program is linked. One at a time; its thread.
struct PretendedKeeper {
  std::map<std::uint64_t, PretendedProcess> processes;  // that run, by the number that the daemon knows
  // SIGTERM or SIGKILL was sent. SIGKILL has ended it when this is called.
  std::function<void(std::uint64_t, int)> on_signal;
  // Ends one: `status` is its exit status, or minus the signal that ends it. Set by KeeperLink.
  std::function<void(std::uint64_t, int status)> end;

  static PretendedKeeper& instance();
};

}  // namespace locksley::fuzz

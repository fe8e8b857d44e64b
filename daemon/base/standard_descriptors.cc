#include "daemon/base/standard_descriptors.h"

#include <fcntl.h>
#include <unistd.h>

namespace locksley::daemon {

void open_standard_descriptors(ClosedOutput output) {
  for (;;) {
    // Gets the lowest number that is free. A descriptor that can only be read makes every write
    // fail.
    const int fd = ::open("/dev/null", output == ClosedOutput::kIsError ? O_RDONLY : O_RDWR);
    if (fd > STDERR_FILENO) ::close(fd);
    if (fd < 0 || fd > STDERR_FILENO) return;
  }
}

}  // namespace locksley::daemon

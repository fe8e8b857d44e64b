#include "daemon/base/standard_descriptors.h"

#include <fcntl.h>
#include <unistd.h>

namespace locksley::daemon {

void open_standard_descriptors(ClosedOutput output) {
  for (;;) {
    // The lowest number that is free. What cannot be written to is an error for who writes.
    const int fd = ::open("/dev/null", output == ClosedOutput::kIsError ? O_RDONLY : O_RDWR);
    if (fd > STDERR_FILENO) ::close(fd);
    if (fd < 0 || fd > STDERR_FILENO) return;
  }
}

}  // namespace locksley::daemon

// What a refusal of a non-blocking socket means. Any thread; nothing blocks or fails.
#pragma once

#include <cerrno>

namespace locksley::daemon {

// After a call that a non-blocking socket refused: whether it is only not ready now. Reads errno.
inline bool is_only_busy() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

}  // namespace locksley::daemon

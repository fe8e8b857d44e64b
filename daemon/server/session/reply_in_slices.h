// Large replies.
#pragma once

#include <cstddef>

#include "daemon/base/loop/io.h"
#include "daemon/base/loop/io_thread.h"
#include "proto/output_buffer.h"

namespace locksley::daemon {

class Session;

// Replies of at least this many bytes should be written by reply_in_slices(). Some 100 us of
// copying.
inline constexpr std::size_t kLargeReply = 256 * 1024;

// Writes the reply that is in `views` (OutputBuffer::of_views()), in slices if it has very many
// bytes. These stay where they are until all are copied.
Coroutine<void> reply_in_slices(Session& session, proto::OutputBuffer views) LOCKSLEY_REQUIRES(kIoThread);

}  // namespace locksley::daemon

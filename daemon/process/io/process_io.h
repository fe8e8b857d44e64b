// The one thread on which everything about processes runs, and Asio's types for it: one thread
// needs no strands and no type-erased executors.
#pragma once

#include <asio/basic_waitable_timer.hpp>
#include <asio/io_context.hpp>
#include <asio/posix/basic_stream_descriptor.hpp>
#include <chrono>

#include "core/sync/thread_role.h"

namespace locksley::daemon {

// The role of the ProcessLoop's thread. Before that thread starts and after it has ended, the
// thread that owns the loop may take the role.
inline constexpr ThreadRole kProcessThread;

using ProcessExecutor = asio::io_context::executor_type;
using ProcessDescriptor = asio::posix::basic_stream_descriptor<ProcessExecutor>;
using ProcessTimer =
    asio::basic_waitable_timer<std::chrono::steady_clock, asio::wait_traits<std::chrono::steady_clock>,
                               ProcessExecutor>;

}  // namespace locksley::daemon

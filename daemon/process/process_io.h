// Asio's types, as everything about processes uses them: one thread, so no strands and no type erasure.
#pragma once

#include <asio/basic_waitable_timer.hpp>
#include <asio/io_context.hpp>
#include <asio/posix/basic_stream_descriptor.hpp>
#include <chrono>

namespace locksley::daemon {

using ProcessExecutor = asio::io_context::executor_type;
using ProcessDescriptor = asio::posix::basic_stream_descriptor<ProcessExecutor>;
using ProcessTimer =
    asio::basic_waitable_timer<std::chrono::steady_clock, asio::wait_traits<std::chrono::steady_clock>,
                               ProcessExecutor>;

}  // namespace locksley::daemon

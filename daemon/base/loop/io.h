// The types of Asio that the daemon uses.
#pragma once

#include <asio/awaitable.hpp>
#include <asio/basic_socket_acceptor.hpp>
#include <asio/basic_stream_socket.hpp>
#include <asio/basic_waitable_timer.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/use_awaitable.hpp>
#include <chrono>

// Asio's types with the io_context's own executor. The type-erased executor would cost allocations
// and virtual calls in every operation.

namespace locksley::daemon {

using IoExecutor = asio::io_context::executor_type;
template <class T>
using Coroutine = asio::awaitable<T, IoExecutor>;
inline constexpr asio::use_awaitable_t<IoExecutor> kAwait;

using Socket = asio::basic_stream_socket<asio::ip::tcp, IoExecutor>;
using Acceptor = asio::basic_socket_acceptor<asio::ip::tcp, IoExecutor>;
using Timer = asio::basic_waitable_timer<std::chrono::steady_clock,
                                         asio::wait_traits<std::chrono::steady_clock>, IoExecutor>;

}  // namespace locksley::daemon

#include "daemon/network/network_threads.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <utility>

namespace locksley::daemon {

NetworkThreads::NetworkThreads(IoExecutor executor, std::uint32_t count,
                               const std::function<bool()>& may_look)
    : ready_(executor) {
  for (std::uint32_t i = 0; i < count; ++i) {
    threads_.push_back(std::make_unique<NetworkThread>(ready_, may_look));
  }
}

NetworkThreads::~NetworkThreads() {
  kIoThread.assert_held();
  stop();
}

std::expected<void, std::string> NetworkThreads::start() {
  try {
    for (const auto& thread : threads_) thread->start();
  } catch (const std::system_error& error) {
    return std::unexpected(
        fmt::format("could not start {} network threads: {}", threads_.size(), error.what()));
  }
  return {};
}

void NetworkThreads::stop() {
  for (const auto& thread : threads_) thread->stop();
}

std::unique_ptr<RelayEnd> NetworkThreads::take_over(int socket, std::unique_ptr<TlsChannel> tls,
                                                    RelayOwner& owner) {
  const auto connections = [](const auto& thread) { return thread->stats().connections.get(); };
  NetworkThread& thread = **std::ranges::min_element(threads_, {}, connections);
  auto relay = std::make_shared<Relay>(large_);
  RelayedConnection& connection =
      thread.adopt(std::make_unique<RelayedConnection>(socket, std::move(tls), relay));
  return std::make_unique<RelayEnd>(std::move(relay), thread, connection, owner);
}

std::expected<std::unique_ptr<NetworkThreads>, std::string> start_network_threads(
    IoExecutor executor, const config::Listen& listen, const std::function<bool()>& may_look) {
  const std::uint64_t threads = listen.threads.count;
  if (threads <= 1) return nullptr;
  auto network =
      std::make_unique<NetworkThreads>(executor, static_cast<std::uint32_t>(threads - 1), may_look);
  if (auto started = network->start(); !started) return std::unexpected(std::move(started.error()));
  return network;
}

}  // namespace locksley::daemon

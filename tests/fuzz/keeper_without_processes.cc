#include "tests/fuzz/keeper_without_processes.h"

#include <fcntl.h>
#include <unistd.h>

#include <asio/post.hpp>
#include <cerrno>
#include <csignal>
#include <utility>

#include "daemon/process/keeper/keeper_link.h"
#include "tests/fuzz/target.h"

namespace locksley::fuzz {

PretendedProcess::PretendedProcess(std::array<int, 3> descriptors) {
  // Of its own, as a child has them, and without waiting, as no child has.
  for (std::size_t i = 0; i < ends_.size(); ++i) {
    ends_[i] = daemon::Descriptor(::fcntl(descriptors[i], F_DUPFD_CLOEXEC, 0));
    require(ends_[i].get() >= 0, "there are descriptors");
    ::fcntl(ends_[i].get(), F_SETFL, ::fcntl(ends_[i].get(), F_GETFL) | O_NONBLOCK);
  }
}

std::size_t PretendedProcess::write(int descriptor, std::string_view bytes) {
  const ssize_t wrote =
      ::write(ends_[static_cast<std::size_t>(descriptor)].get(), bytes.data(), bytes.size());
  return wrote < 0 ? 0 : static_cast<std::size_t>(wrote);
}

std::string PretendedProcess::read() {
  std::string all;
  std::array<char, 4096> some;
  for (;;) {
    const ssize_t got = ::read(ends_[0].get(), some.data(), some.size());
    if (got <= 0) return all;
    all.append(some.data(), static_cast<std::size_t>(got));
  }
}

PretendedKeeper& PretendedKeeper::instance() {
  static PretendedKeeper keeper;
  return keeper;
}

}  // namespace locksley::fuzz

namespace locksley::daemon {

using fuzz::PretendedKeeper;

KeeperLink::KeeperLink(ProcessExecutor executor, std::shared_ptr<spdlog::logger> log)
    : executor_(executor), log_(std::move(log)), socket_(executor) {
  PretendedKeeper::instance().end = [this](std::uint64_t process, int status) {
    if (PretendedKeeper::instance().processes.erase(process) == 0) return;
    asio::post(executor_, [this, alive = std::weak_ptr(alive_), process, status] {
      if (alive.expired()) return;
      kProcessThread.assert_held();
      const auto found = processes_.find(process);
      if (found == processes_.end()) return;
      const Callbacks callbacks = std::move(found->second.callbacks);
      processes_.erase(found);
      callbacks.on_end({.why = {}, .has_exited = status >= 0, .status = status < 0 ? -status : status});
    });
  };
}

std::expected<void, std::string> KeeperLink::start_as_root(const std::vector<KeeperUser>&) { return {}; }

KeeperLink::~KeeperLink() {
  PretendedKeeper::instance().processes.clear();
  PretendedKeeper::instance().end = nullptr;
}

std::uint64_t KeeperLink::start(const SpawnRequest&, std::span<const int> descriptors, Callbacks callbacks) {
  const std::uint64_t process = ++last_process_;
  processes_.emplace(process, Process{.callbacks = std::move(callbacks), .program = {}});
  fuzz::require(descriptors.size() == 3, "a worker has three descriptors");
  PretendedKeeper::instance().processes.emplace(
      process, fuzz::PretendedProcess({descriptors[0], descriptors[1], descriptors[2]}));
  asio::post(executor_, [this, alive = std::weak_ptr(alive_), process] {
    if (alive.expired()) return;
    kProcessThread.assert_held();
    const auto found = processes_.find(process);
    if (found == processes_.end()) return;
    const Callbacks& callbacks = found->second.callbacks;
    if (callbacks.on_start) callbacks.on_start(::getpid());
  });
  return process;
}

void KeeperLink::signal(std::uint64_t process, int signal) {
  PretendedKeeper& keeper = PretendedKeeper::instance();
  if (!keeper.processes.contains(process)) return;
  if (signal == SIGKILL) keeper.end(process, -SIGKILL);
  if (keeper.on_signal) keeper.on_signal(process, signal);
}

}  // namespace locksley::daemon

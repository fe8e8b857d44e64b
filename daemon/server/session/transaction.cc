#include "daemon/server/session/transaction.h"

#include <fmt/format.h>

#include <utility>

#include "core/base/check.h"

namespace locksley::daemon {

void Transaction::open() {
  check(state_ == State::kClosed, "a transaction in a transaction");
  state_ = State::kOpen;
}

std::string Transaction::queue(proto::Command command, const Account& account) {
  check(is_open(), "a command is queued outside of a transaction");
  if (is_spoiled_) return {};
  // A small command may be in a block of 1 MiB, and wait for long.
  command.arguments.compact();
  const std::uint64_t bytes = bytes_of(command);
  if (const Account* full = account.first_without_room(Resource::kClientBytes, bytes)) {
    const std::uint64_t limit = full->limit(Resource::kClientBytes);
    const std::string key = full->key(Resource::kClientBytes);
    std::string error =
        bytes_ + bytes > limit
            ? fmt::format("TOOBIG the commands since MULTI have {} bytes, and {} is {}", bytes_ + bytes, key,
                          limit)
            : fmt::format(
                  "QUEUEFULL {} is {}, and {} bytes are in use: the command was not queued, try again", key,
                  limit, full->used(Resource::kClientBytes));
    spoil();
    return error;
  }
  bytes_ += bytes;
  queue_.push_back(std::move(command));
  return {};
}

void Transaction::spoil() {
  if (!is_open()) return;
  is_spoiled_ = true;
  queue_.clear();
  bytes_ = 0;
}

void Transaction::run() {
  check(is_open() && !is_spoiled_, "a transaction that cannot run");
  state_ = State::kRunning;
}

proto::Command Transaction::next() {
  check(is_running() && !queue_.empty(), "no command is left in the transaction");
  proto::Command command = std::move(queue_.front());
  queue_.pop_front();
  bytes_ -= bytes_of(command);
  return command;
}

void Transaction::close() {
  state_ = State::kClosed;
  is_spoiled_ = false;
  bytes_ = 0;
  std::deque<proto::Command>().swap(queue_);
}

}  // namespace locksley::daemon

#include "daemon/server/session/transaction.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/check.h"

namespace locksley::daemon {

namespace {

using Number = std::uint32_t;  // in a page

void append(std::string& page, std::size_t number) {
  const auto value = static_cast<Number>(number);
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  page.append(bytes, sizeof bytes);
}

Number number_at(std::string_view page, std::size_t at) {
  Number value = 0;
  std::memcpy(&value, page.data() + at, sizeof value);
  return value;
}

}  // namespace

void Transaction::open() {
  check(state_ == State::kClosed, "a transaction in a transaction");
  state_ = State::kOpen;
}

std::string Transaction::queue(proto::Command& command, const Account& account) {
  check(is_open(), "a command is queued outside of a transaction");
  if (is_spoiled_) return {};
  proto::ArgumentList& arguments = command.arguments;
  const std::size_t packed = sizeof(Number) * (1 + arguments.size()) + arguments.payload_bytes();
  const bool is_large = packed > kMostPacked;
  // The command may lie in a block that is larger than itself, which would stay in memory until
  // EXEC.
  if (is_large) arguments.compact();
  const auto capacity = capacity_for(packed);
  const std::uint64_t own = is_large   ? bytes_of(command)
                            : capacity ? *capacity - queue_->pages.back().capacity()
                                       : std::max(packed, kFirstPageBytes);
  const std::uint64_t bytes = own + (queue_ == nullptr ? kQueueBytes : 0);
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
  if (queue_ == nullptr) {
    queue_ = std::make_unique<Queue>();
    bytes_ += kQueueBytes;
  }
  std::deque<Stretch>& stretches = queue_->stretches;
  if (stretches.empty() || stretches.back().large) stretches.emplace_back();
  if (is_large) {
    bytes_ += own;
    stretches.back().large = std::move(command);
  } else {
    pack(arguments, packed);
    ++stretches.back().packed;
  }
  ++size_;
  return {};
}

std::optional<std::size_t> Transaction::capacity_for(std::size_t bytes) const {
  if (queue_ == nullptr || queue_->pages.empty()) return std::nullopt;
  const std::string& page = queue_->pages.back();
  if (page.size() + bytes > kPageBytes) return std::nullopt;
  if (page.size() + bytes <= page.capacity()) return page.capacity();
  // The capacity to which libstdc++ would grow the page, too. pack() reserves it, so the page takes
  // as much as was charged.
  return std::max(page.size() + bytes, 2 * page.capacity());
}

void Transaction::pack(const proto::ArgumentList& arguments, std::size_t bytes) {
  const auto capacity = capacity_for(bytes);
  if (!capacity) queue_->pages.emplace_back();
  std::string& page = queue_->pages.back();
  if (capacity) bytes_ -= page.capacity();
  page.reserve(capacity.value_or(std::max(bytes, kFirstPageBytes)));
  bytes_ += page.capacity();
  append(page, arguments.size());
  for (const std::string_view argument : arguments) append(page, argument.size());
  for (const std::string_view argument : arguments) page += argument;
}

proto::Command Transaction::unpack() {
  auto& [stretches, pages, read] = *queue_;
  const std::string& page = pages.front();
  const std::size_t count = number_at(page, read);
  std::size_t at = read + sizeof(Number) * (1 + count);
  std::vector<std::string_view> arguments(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t length = number_at(page, read + sizeof(Number) * (1 + i));
    arguments[i] = std::string_view(page).substr(at, length);
    at += length;
  }
  proto::Command command{proto::ArgumentList::copy_of(arguments)};
  read = at;
  if (read == page.size()) {
    bytes_ -= page.capacity();
    pages.pop_front();
    read = 0;
  }
  return command;
}

void Transaction::spoil() {
  if (!is_open()) return;
  is_spoiled_ = true;
  drop();
}

void Transaction::run() {
  check(is_open() && !is_spoiled_, "a transaction that cannot run");
  state_ = State::kRunning;
}

proto::Command Transaction::next() {
  check(is_running() && size_ != 0, "no command is left in the transaction");
  proto::Command command = take_first();
  if (--size_ == 0) {
    queue_.reset();
    bytes_ = 0;
  }
  return command;
}

proto::Command Transaction::take_first() {
  std::deque<Stretch>& stretches = queue_->stretches;
  Stretch& first = stretches.front();
  if (first.packed != 0) {
    --first.packed;
    if (first.packed == 0 && !first.large) stretches.pop_front();
    return unpack();
  }
  proto::Command command = std::move(*first.large);
  stretches.pop_front();
  bytes_ -= bytes_of(command);
  return command;
}

void Transaction::close() {
  state_ = State::kClosed;
  is_spoiled_ = false;
  drop();
}

void Transaction::drop() {
  if (queue_ == nullptr) return;
  std::shared_ptr<Queue> dropped = std::move(queue_);
  size_ = 0;
  free_(std::move(dropped), std::exchange(bytes_, 0));
}

}  // namespace locksley::daemon

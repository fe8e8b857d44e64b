#include "daemon/base/loop/io_mailbox.h"

#include <sys/eventfd.h>

#include <asio/post.hpp>
#include <cerrno>
#include <system_error>
#include <utility>

namespace locksley::daemon {
namespace {

int make_eventfd() {
  const int made = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (made < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
  return made;
}

}  // namespace

asio::execution_context::id IoMailbox::id;

IoMailbox::IoMailbox(asio::io_context& io)
    : asio::execution_context::service(io), io_(io), bell_(io.get_executor(), make_eventfd()) {}

void IoMailbox::post(Function function) {
  {
    const MutexLock lock(mutex_);
    if (!is_served_) return asio::post(io_, std::move(function));
    functions_.push_back(std::move(function));
    has_functions_.store(true);
  }
  if (!sleeps_.load() || !sleeps_.exchange(false)) return;
  // It cannot fail: the sum of all writes does not come near 2^64.
  (void)::eventfd_write(bell_.native_handle(), 1);
}

bool IoMailbox::run() {
  if (!has_functions_.load()) return false;
  {
    const MutexLock lock(mutex_);
    functions_.swap(running_);
    has_functions_.store(false);
  }
  for (Function& function : running_) function();
  running_.clear();
  return true;
}

bool IoMailbox::begin_sleep() {
  sleeps_.store(true);
  if (!has_functions_.load()) return true;
  sleeps_.store(false);
  return false;
}

void IoMailbox::set_served(bool served) {
  // Holds the mutex throughout, so that the function of a later post() does not come first.
  const MutexLock lock(mutex_);
  is_served_ = served;
  for (Function& function : functions_) asio::post(io_, std::move(function));
  functions_.clear();
  has_functions_.store(false);
}

void IoMailbox::shutdown() {
  std::vector<Function> left;
  {
    const MutexLock lock(mutex_);
    left.swap(functions_);
  }
  bell_.close();
}

}  // namespace locksley::daemon

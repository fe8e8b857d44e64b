#include "core/sync/parker.h"

#include <cerrno>
#include <ctime>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/check.h"

namespace locksley {
namespace {

static_assert(sizeof(Futex) == sizeof(std::uint32_t) && Futex::is_always_lock_free,
              "the kernel reads the atomic as a plain word");

// Sleeps at most until `deadline` on the monotonic clock (null: for ever). False only if the
// deadline has passed.
bool sleep_while(const Futex& word, std::uint32_t value, const timespec* deadline) {
  // The bitset form takes an absolute deadline, which spurious wake-ups do not push back.
  const long result =
      ::syscall(SYS_futex, reinterpret_cast<const std::uint32_t*>(&word),
                FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, value, deadline, nullptr, FUTEX_BITSET_MATCH_ANY);
  if (result == 0) {
    return true;
  }
  check(errno == EAGAIN || errno == EINTR || errno == ETIMEDOUT, "futex wait failed");
  return errno != ETIMEDOUT;
}

}  // namespace

void Futex::wait_while(std::uint32_t value) { sleep_while(*this, value, nullptr); }

bool Futex::wait_while_until(std::uint32_t value, std::chrono::steady_clock::time_point deadline) {
  // steady_clock is the kernel's monotonic clock.
  const std::chrono::nanoseconds since_start = deadline.time_since_epoch();
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(since_start);
  timespec storage{};
  storage.tv_sec = seconds.count();
  storage.tv_nsec = (since_start - seconds).count();
  return sleep_while(*this, value, &storage);
}

void Futex::wake_one() {
  ::syscall(SYS_futex, reinterpret_cast<const std::uint32_t*>(this), FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1,
            nullptr, nullptr, 0);
}

template class BasicParker<StdAtomics>;

}  // namespace locksley

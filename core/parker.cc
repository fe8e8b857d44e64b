#include "core/parker.h"

#include <cerrno>
#include <ctime>
#include <limits>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/check.h"

namespace locksley {
namespace {

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t) &&
                  std::atomic<std::uint32_t>::is_always_lock_free,
              "the kernel reads the atomic as a plain word");

// Sleeps while `word` holds `value`, at most until `deadline` on the monotonic clock (null: for ever). May
// return early for no reason. False only when the deadline has passed.
bool futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t value, const timespec* deadline) {
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

void futex_wake_one(const std::atomic<std::uint32_t>& word) {
  ::syscall(SYS_futex, reinterpret_cast<const std::uint32_t*>(&word), FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1,
            nullptr, nullptr, 0);
}

// `timeout` from now on the monotonic clock; null, for ever, where that lies beyond the clock's range.
const timespec* deadline_after(std::chrono::nanoseconds timeout, timespec& storage) {
  constexpr std::int64_t kNanoseconds = 1'000'000'000;
  ::clock_gettime(CLOCK_MONOTONIC, &storage);
  const std::int64_t now = storage.tv_sec * kNanoseconds + storage.tv_nsec;
  const std::int64_t wait = timeout.count() > 0 ? timeout.count() : 0;
  if (wait > std::numeric_limits<std::int64_t>::max() - now) {
    return nullptr;
  }
  storage.tv_sec = (now + wait) / kNanoseconds;
  storage.tv_nsec = (now + wait) % kNanoseconds;
  return &storage;
}

}  // namespace

void Parker::park() {
  std::uint32_t seen = kEmpty;
  if (state_.compare_exchange_strong(seen, kParked)) {
    do {
      futex_wait(state_, kParked, nullptr);
      seen = state_.load();
    } while (seen == kParked);
  }
  check(seen == kToken, "two threads park at one parker");
  // Takes the token. What was written before every unpark() up to here is seen, also one that found a token.
  state_.exchange(kEmpty);
}

bool Parker::park_for(std::chrono::nanoseconds timeout) {
  std::uint32_t seen = kEmpty;
  if (state_.compare_exchange_strong(seen, kParked)) {
    timespec storage{};
    const timespec* deadline = deadline_after(timeout, storage);
    bool in_time = true;
    do {
      in_time = futex_wait(state_, kParked, deadline);
      seen = state_.load();
    } while (seen == kParked && in_time);
  }
  check(seen != kEmpty, "two threads park at one parker");
  // A token that came just after the deadline is still taken: none is ever lost.
  return state_.exchange(kEmpty) == kToken;
}

void Parker::unpark() {
  if (state_.exchange(kToken) == kParked) {
    futex_wake_one(state_);
  }
}

}  // namespace locksley

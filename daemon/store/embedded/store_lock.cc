#include "daemon/store/embedded/store_lock.h"

#include <rocksdb/env.h>

#include <thread>

#include "daemon/base/time.h"

namespace locksley::daemon {

bool is_lock_held(const rocksdb::Status& status) {
  const std::string words = status.ToString();
  return words.find("While lock file") != std::string::npos ||
         words.find("lock hold by") != std::string::npos;
}

std::optional<std::string> await_unlocked(const std::string& folder, const std::function<void()>& on_wait) {
  constexpr std::chrono::milliseconds kPause{20};  // guess
  rocksdb::Env* const env = rocksdb::Env::Default();
  const Instant end = now() + kLockPatience;
  for (bool has_waited = false;; has_waited = true) {
    rocksdb::FileLock* lock = nullptr;
    const rocksdb::Status status = env->LockFile(folder + "/LOCK", &lock);
    if (status.ok()) env->UnlockFile(lock).PermitUncheckedError();
    if (status.ok() || !is_lock_held(status)) return std::nullopt;
    if (now() >= end) return status.ToString();
    if (!has_waited) on_wait();
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace locksley::daemon

// Readings of payloads from a server that is slow, or away, as a test tells it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>

#include "core/sync/mutex.h"
#include "daemon/store/engine.h"

namespace locksley::testing {

// Owned by the test, or by its disk; outlives the engines. Any thread may call anything. Waits end after 30 s.
class SlowServer {
 public:
  // Readings wait from now on.
  void hold() {
    const MutexLock lock(mutex_);
    holds_ = true;
  }
  // So many of them do not.
  void let_pass(std::size_t readings) {
    {
      const MutexLock lock(mutex_);
      passes_ += readings;
    }
    changed_.notify_all();
  }
  // Returns once so many wait; false if they do not.
  bool await_held(std::size_t readings) {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    const MutexLock lock(mutex_);
    while (held_ != readings && changed_.wait_until(mutex_, end) == std::cv_status::no_timeout) {
    }
    return held_ == readings;
  }
  // Readings, and short questions, fail from now on; none: they do not.
  void fail(std::optional<daemon::EngineError::Kind> kind) {
    const MutexLock lock(mutex_);
    fault_ = kind;
  }
  // How many readings have ended.
  std::size_t readings() const {
    const MutexLock lock(mutex_);
    return readings_;
  }

  // For the engine: a reading, or a short question, which never waits.
  enum class Kind : std::uint8_t { kReading, kQuestion };
  daemon::EngineDone pass(Kind kind) {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    const MutexLock lock(mutex_);
    if (kind == Kind::kReading && holds_) {
      ++held_;
      changed_.notify_all();
      while (passes_ == 0 && changed_.wait_until(mutex_, end) == std::cv_status::no_timeout) {
      }
      --held_;
      if (passes_ == 0)
        return std::unexpected(daemon::EngineError{daemon::EngineError::Kind::kFailed, "held for too long"});
      --passes_;
    }
    if (kind == Kind::kReading) ++readings_;
    if (!fault_) return {};
    return std::unexpected(daemon::EngineError{*fault_, "injected"});
  }

 private:
  static constexpr auto kPatience = std::chrono::seconds(30);

  mutable Mutex mutex_;
  CondVar changed_;
  bool holds_ LOCKSLEY_GUARDED_BY(mutex_) = false;
  std::size_t passes_ LOCKSLEY_GUARDED_BY(mutex_) = 0;
  std::size_t held_ LOCKSLEY_GUARDED_BY(mutex_) = 0;
  std::size_t readings_ LOCKSLEY_GUARDED_BY(mutex_) = 0;
  std::optional<daemon::EngineError::Kind> fault_ LOCKSLEY_GUARDED_BY(mutex_);
};

}  // namespace locksley::testing

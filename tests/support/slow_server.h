// Readings of payloads from a server that is slow, or away, as a test tells it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>
#include <stop_token>

#include "core/sync/mutex.h"
#include "daemon/store/engine/engine.h"

namespace locksley::testing {

// Owned by the test, or by its disk; outlives the engines. Any thread may call anything. Waits end
// after 30 s.
class SlowServer {
  static constexpr auto kPatience = std::chrono::seconds(30);

 public:
  // Readings wait from now on.
  void hold() {
    const MutexLock lock(mutex_);
    holds_ = true;
  }
  // This many of them need not wait.
  void let_pass(std::size_t readings) {
    {
      const MutexLock lock(mutex_);
      passes_ += readings;
    }
    changed_.notify_all();
  }
  // Returns true once this many readings wait; false if they do not within `patience`.
  bool await_held(std::size_t readings, std::chrono::milliseconds patience = kPatience) {
    const auto end = std::chrono::steady_clock::now() + patience;
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
  // From now on a reading takes this long. If its patience is shorter, it waits for its patience
  // and fails.
  void take(std::chrono::milliseconds takes) {
    const MutexLock lock(mutex_);
    takes_ = takes;
  }
  // How many readings have ended.
  std::size_t readings() const {
    const MutexLock lock(mutex_);
    return readings_;
  }

  // How many short questions were asked.
  std::size_t questions() const {
    const MutexLock lock(mutex_);
    return questions_;
  }

  // For the engine: a reading, or a short question, which never waits.
  enum class Kind : std::uint8_t { kReading, kQuestion };
  daemon::EngineDone pass(Kind kind, std::chrono::milliseconds patience, const std::stop_token& stop) {
    const auto began = std::chrono::steady_clock::now();
    const auto end = began + kPatience;
    const std::stop_callback stopped(stop, [this] {
      const MutexLock lock(mutex_);
      changed_.notify_all();
    });
    const auto away = [](const char* why) {
      return std::unexpected(daemon::EngineError{daemon::EngineError::Kind::kAway, why});
    };
    const MutexLock lock(mutex_);
    if (kind == Kind::kReading && takes_ > patience) {
      while (!stop.stop_requested() &&
             changed_.wait_until(mutex_, began + patience) == std::cv_status::no_timeout) {
      }
      return away("the database does not reply");
    }
    if (kind == Kind::kReading && holds_) {
      ++held_;
      changed_.notify_all();
      while (passes_ == 0 && !stop.stop_requested() &&
             changed_.wait_until(mutex_, end) == std::cv_status::no_timeout) {
      }
      --held_;
      if (passes_ == 0 && stop.stop_requested()) return away("stopped");
      if (passes_ == 0)
        return std::unexpected(daemon::EngineError{daemon::EngineError::Kind::kFailed, "held for too long"});
      --passes_;
    }
    ++(kind == Kind::kReading ? readings_ : questions_);
    if (!fault_) return {};
    return std::unexpected(daemon::EngineError{*fault_, "injected"});
  }

 private:
  mutable Mutex mutex_;
  CondVar changed_;
  bool holds_ LOCKSLEY_GUARDED_BY(mutex_) = false;
  std::chrono::milliseconds takes_ LOCKSLEY_GUARDED_BY(mutex_){0};
  std::size_t passes_ LOCKSLEY_GUARDED_BY(mutex_) = 0;
  std::size_t held_ LOCKSLEY_GUARDED_BY(mutex_) = 0;
  std::size_t readings_ LOCKSLEY_GUARDED_BY(mutex_) = 0;
  std::size_t questions_ LOCKSLEY_GUARDED_BY(mutex_) = 0;
  std::optional<daemon::EngineError::Kind> fault_ LOCKSLEY_GUARDED_BY(mutex_);
};

}  // namespace locksley::testing

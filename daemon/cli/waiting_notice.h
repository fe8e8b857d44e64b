// The message that a batch waits for workers.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "core/base/job.h"
#include "proto/clients/cpp/client.h"

namespace locksley::cli {

// Says on standard error, once, that a batch waits for workers or for its handler: without a
// message the wait would look like a job that takes long.
//
// Used by one thread. update() asks the daemon now and then, and blocks for the reply; without one
// it says nothing.
class WaitingNotice {
 public:
  // `rows`: how many results have come so far. `before`: called before the message is written.
  void update(client::Client& client, const std::string& batch, std::uint64_t rows,
              const std::function<void()>& before);

 private:
  // How long no result comes before the daemon is asked: the first time, and each further time.
  // Guesses: longer than most jobs take; rarely enough to cost nothing.
  static constexpr std::chrono::milliseconds kFirst{1000};
  static constexpr std::chrono::milliseconds kAgain{5000};

  std::uint64_t rows_ = 0;
  Instant look_at_ = now() + kFirst;
  bool is_said_ = false;
};

}  // namespace locksley::cli

#pragma once

#include <atomic>
#include <optional>
#include <thread>

#include "daemon/cli/context.h"
#include "daemon/cli/event.h"
#include "daemon/cli/feed.h"

namespace locksley::cli {

// A Feed on a thread and a connection of its own, so that `run` can read results while it is still
// submitting: with one connection for both, results that nobody reads would hold up the input.
//
// Made and used by one thread. stop() and the destructor wait for the thread, which sees the stop wherever it
// waits.
class FeedThread {
 public:
  // Borrows both. Starts at once.
  FeedThread(const Context& context, const SubmitArguments& arguments);
  ~FeedThread() { stop(); }
  FeedThread(const FeedThread&) = delete;
  FeedThread& operator=(const FeedThread&) = delete;

  // Readable once the daemon knows the batch, or never will.
  int settled_fd() const { return settled_.fd(); }
  bool has_begun() const { return begun_; }
  bool is_over() const { return over_; }
  // Jobs that the daemon is known to have.
  std::uint64_t jobs() const { return jobs_; }

  // Ends the input where it is, and waits for the thread.
  void stop();
  // Why the input ended early; to be called once is_over().
  const std::optional<client::ClientError>& error() const { return error_; }

 private:
  void run(const Context& context, const SubmitArguments& arguments);

  Event stop_;
  Event settled_;
  // Written by the feed's thread, read by the other; each true is final, and over_ publishes error_.
  std::atomic<bool> begun_{false};
  std::atomic<bool> over_{false};
  // Written by the feed's thread through Feed, read for the progress: nothing hangs on it.
  std::atomic<std::uint64_t> jobs_{0};
  std::optional<client::ClientError> error_;
  std::thread thread_;  // the last member: it uses all the others
};

}  // namespace locksley::cli

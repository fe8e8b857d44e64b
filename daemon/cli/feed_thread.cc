#include "daemon/cli/feed_thread.h"

#include <unistd.h>

namespace locksley::cli {

FeedThread::FeedThread(const Context& context, const SubmitArguments& arguments)
    : thread_([this, &context, &arguments] { run(context, arguments); }) {}

void FeedThread::run(const Context& context, const SubmitArguments& arguments) {
  auto client = context.connect(stop_.fd());
  if (client) {
    Feed feed(*client, arguments, STDIN_FILENO, stop_.fd(), [this](std::uint64_t jobs) {
      jobs_ = jobs;
      begun_ = true;
      settled_.raise();
    });
    if (auto fed = feed.run(); !fed) error_ = std::move(fed.error());
  } else {
    error_ = std::move(client.error());
  }
  over_ = true;
  settled_.raise();
}

void FeedThread::stop() {
  stop_.raise();
  if (thread_.joinable()) thread_.join();
}

}  // namespace locksley::cli

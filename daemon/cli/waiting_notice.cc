#include "daemon/cli/waiting_notice.h"

#include <cstdio>

namespace locksley::cli {

void WaitingNotice::update(client::Client& client, const std::string& batch, std::uint64_t rows,
                           const std::function<void()>& before) {
  if (is_said_) return;
  const Instant now = locksley::now();
  if (rows != rows_) look_at_ = now + kFirst;
  rows_ = rows;
  if (now < look_at_) return;
  look_at_ = now + kAgain;
  const auto explanation = client.explain(batch);
  if (!explanation) return;
  const bool lacks_workers = explanation->reason == "waiting-for-workers";
  if (!lacks_workers && explanation->reason != "handler-missing") return;
  const auto status = client.status(batch);
  if (!status) return;
  is_said_ = true;
  before();
  std::fprintf(stderr, "locksley: batch %s waits: %s '%s' now\n", batch.c_str(),
               lacks_workers ? "no worker serves the handler" : "the daemon has no handler",
               status->handler.c_str());
}

}  // namespace locksley::cli

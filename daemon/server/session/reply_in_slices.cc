#include "daemon/server/session/reply_in_slices.h"

#include <array>
#include <string_view>
#include <utility>

#include "daemon/server/session/session.h"

namespace locksley::daemon {

Coroutine<void> reply_in_slices(Session& session, proto::OutputBuffer views) {
  constexpr std::size_t kAtOnce = 64 * 1024;  // some 30 us, with the faults of fresh pages
  if (session.replies().is_muted()) co_return;
  proto::OutputBuffer copy;
  Slices::Spending time(session.state().slices());
  while (!views.empty()) {
    std::array<std::string_view, 1> first;
    views.gather(first);
    const std::string_view some = first[0].substr(0, kAtOnce);
    copy.append(some);
    views.consume(some.size());
    if (!time.is_used_up()) continue;
    if (!co_await session.waits().let_others(time, copy.memory_bytes())) {
      session.replies().free_if_large(std::move(copy));
      co_return;
    }
  }
  session.reply().buffer().append(std::move(copy));
}

}  // namespace locksley::daemon

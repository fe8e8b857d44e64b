#include "daemon/server/batches/changes/drain.h"

#include <cstddef>
#include <utility>

#include "daemon/base/loop/slices.h"
#include "daemon/server/batches/changes/streams.h"
#include "daemon/server/batches/stored/stored_batches.h"

namespace locksley::daemon {

void Drain::begin(std::function<void()> on_idle) {
  on_idle_ = std::move(on_idle);
  streams_.detach_all();
  streams_.for_each([](BatchRecord& record) {
    kIoThread.assert_held();
    if (!record.is_stored()) record.lane->close(record);
  });
  call_if_idle();
}

void Drain::call_if_idle() {
  if (!on_idle_) return;
  // A batch that was checked already may be busy now.
  search_.restart();
  if (is_searching_ || !look_for_busy()) return;
  is_searching_ = true;
  slices_.add([this](Instant until) {
    kIoThread.assert_held();
    while (look_for_busy()) {
      if (now() >= until) return false;
    }
    is_searching_ = false;
    return true;
  });
}

bool Drain::look_for_busy() {
  constexpr std::size_t kAtOnce = 64;  // some 10 us
  if (!on_idle_ || stored_.has_unsettled() || registry_.runs().size() != 0) return false;
  // A stored batch that is open, or held, or has only jobs that wait for their retry, stays so
  // after a restart.
  const auto is_busy = [](const BatchRecord& record) {
    if (!record.is_stored()) return true;
    const BatchStatus status = record.status();
    if (status.running != 0) return true;
    if (status.holds != 0) return false;
    return status.queued != status.waiting || (status.waiting == 0 && status.state != BatchState::kOpen);
  };
  const auto found = registry_.find_active(search_, kAtOnce, is_busy);
  if (found == Registry::Searched::kNone) std::exchange(on_idle_, nullptr)();
  return found == Registry::Searched::kNotYet;
}

}  // namespace locksley::daemon

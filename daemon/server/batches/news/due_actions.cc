#include "daemon/server/batches/news/due_actions.h"

#include <chrono>

#include "daemon/server/accounts/tenants.h"
#include "daemon/server/batches/changes/batch_changes.h"
#include "daemon/server/batches/changes/dependencies.h"
#include "daemon/server/batches/news/batch_news.h"
#include "daemon/server/batches/retention/retention.h"
#include "daemon/server/records/registry.h"

namespace locksley::daemon {

namespace {
// When to try again to forget a batch whose dependents are not all notified of its end. A guess.
constexpr auto kForgetAgain = std::chrono::seconds(1);
}  // namespace

void DueActions::act_on(BatchRecord& record, Due due) const {
  switch (due) {
    case Due::kDeadline:
      parts_.changes.end_by_deadline(record, parts_.registry.tenant_of(record).account);
      break;
    case Due::kClose:
      parts_.changes.close_abandoned(record, parts_.registry.tenant_of(record).account);
      break;
    case Due::kForget:
      if (parts_.dependencies.is_notifying(record.sequence)) {
        parts_.registry.schedule(record, Due::kForget, now() + kForgetAgain);
      } else {
        parts_.retention.forget(record, Urgency::kWithNext);
      }
      break;
    case Due::kRetry:
      record.lane->retry_due(record.shared());
      parts_.news.schedule_retry(record, record.status());
      break;
    case Due::kStart:
      record.lane->release(record, Hold::kDelay);
      break;
    case Due::kProgress:
      parts_.news.publish_progress(record);
      break;
  }
}

}  // namespace locksley::daemon

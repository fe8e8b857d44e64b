#include "daemon/server/commands/named_batch.h"

#include "daemon/server/records/refusals.h"
#include "daemon/server/state/server_state.h"

namespace locksley::daemon {

BatchRecord* batch_of(Session& session, std::string_view id) {
  const auto found = session.state().batches().find(session.user(), id);
  if (!found) {
    session.fail(found.error());
    return nullptr;
  }
  if (*found == nullptr) session.fail(no_such_batch(id));
  return *found;
}

}  // namespace locksley::daemon

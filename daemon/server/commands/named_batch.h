// The batch that a command names.
#pragma once

#include <expected>
#include <memory>
#include <string>
#include <string_view>

#include "daemon/base/loop/io_thread.h"
#include "daemon/server/records/batch_record.h"
#include "daemon/server/session/session.h"

namespace locksley::daemon {

// The batch of this id that the user may see; null after an error reply.
BatchRecord* batch_of(Session& session, std::string_view id) LOCKSLEY_REQUIRES(kIoThread);

// The batch that a parsed command names by its `id`, for commands that may wait meanwhile. Null
// after an error reply: the command was wrong, or the user sees no such batch.
template <class Parsed>
std::shared_ptr<BatchRecord> named_batch(Session& session, const std::expected<Parsed, std::string>& parsed)
    LOCKSLEY_REQUIRES(kIoThread) {
  if (!parsed) {
    session.fail(parsed.error());
    return nullptr;
  }
  BatchRecord* const record = batch_of(session, parsed->id);
  return record == nullptr ? nullptr : record->shared();
}

}  // namespace locksley::daemon

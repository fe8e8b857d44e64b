// The reply to JOIN: facts about the upstream for a worker that has joined.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/upstream/replies/reply_cursor.h"

namespace locksley::daemon {

// A plain value.
struct JoinReply {
  // The interval from one BEAT to the next.
  std::chrono::milliseconds beat{};
  // How long the upstream waits for bytes of this worker before it gives its jobs to others.
  std::chrono::milliseconds lease{};
  std::uint64_t longest_output = 0;  // that the upstream accepts; 0: not in the reply
  // The name of the store whose batches are leased; empty: not in the reply.
  std::string store;
  std::vector<std::string> addresses;  // of other daemons of the cluster
  // Handlers of this worker that the upstream does not offer to remote workers, or to this user. As
  // soon as it does, it leases their jobs.
  std::vector<std::string> not_served;
};

// Reads the reply, which must be whole and not an error. None: it is not a reply to JOIN. Values
// beyond the known ones are ignored. Any thread; nothing blocks.
std::optional<JoinReply> read_join_reply(ReplyCursor reply);

}  // namespace locksley::daemon

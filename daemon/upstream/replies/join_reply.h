// The reply to JOIN: the upstream's properties, for a worker that has joined.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/upstream/replies/reply_cursor.h"

namespace locksley::daemon {

// A value.
struct JoinReply {
  // From one BEAT to the next.
  std::chrono::milliseconds beat{};
  // How long the upstream waits for bytes of this worker before it gives its jobs to others.
  std::chrono::milliseconds lease{};
  std::uint64_t longest_output = 0;  // that the upstream takes; 0: not said
  // The name of the store whose batches are leased; empty: not said.
  std::string store;
  std::vector<std::string> addresses;  // of other daemons of the cluster
  // Handlers that the upstream does not offer to remote workers, or to this user. It gives jobs of
  // them as soon as it does.
  std::vector<std::string> not_served;
};

// Reads the reply, which must be whole and no error. None: it is not a reply of JOIN. Values beyond
// the known ones are ignored. Any thread; nothing blocks.
std::optional<JoinReply> read_join_reply(ReplyCursor reply);

}  // namespace locksley::daemon

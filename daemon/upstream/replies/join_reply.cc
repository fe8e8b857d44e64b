#include "daemon/upstream/replies/join_reply.h"

#include <algorithm>
#include <string_view>

namespace locksley::daemon {
namespace {

constexpr std::uint64_t kLongestLeaseMs = 24 * 3'600'000;  // the bound of workers.lease, and of LEASE

void read_texts(ReplyCursor& reply, std::vector<std::string>& texts) {
  for (std::uint64_t left = reply.array(); left != 0 && !reply.is_bad(); --left)
    texts.emplace_back(reply.text());
}

}  // namespace

std::optional<JoinReply> read_join_reply(ReplyCursor reply) {
  JoinReply read;
  std::uint64_t beat_ms = 0, lease_ms = 0;
  std::uint64_t values = reply.array();
  for (; values >= 2 && !reply.is_bad(); values -= 2) {
    const std::string_view key = reply.text();
    if (key == "beat_ms") {
      beat_ms = reply.count();
    } else if (key == "lease_ms") {
      lease_ms = reply.count();
    } else if (key == "longest_output") {
      read.longest_output = reply.count();
    } else if (key == "store") {
      read.store = reply.text();
    } else if (key == "addresses") {
      read_texts(reply, read.addresses);
    } else if (key == "not_served") {
      read_texts(reply, read.not_served);
    } else {
      reply.skip();
    }
  }
  if (reply.is_bad() || beat_ms == 0 || std::max(beat_ms, lease_ms) > kLongestLeaseMs) return std::nullopt;
  read.beat = std::chrono::milliseconds(beat_ms);
  read.lease = std::chrono::milliseconds(lease_ms);
  return read;
}

}  // namespace locksley::daemon

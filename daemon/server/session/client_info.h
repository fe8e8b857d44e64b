#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "proto/reply_writer.h"

namespace locksley::daemon {

// What a client has said of itself and of the replies that it wants. Set by commands, shown by CLIENT LIST.
struct ClientInfo {
  // What CLIENT REPLY set.
  enum class ReplyMode : std::uint8_t { kOn, kOff, kSkipNext, kSkipping };

  proto::Protocol protocol = proto::Protocol::kResp2;
  ReplyMode reply_mode = ReplyMode::kOn;
  std::string name;
  std::string library_name;
  std::string library_version;
  bool no_evict = false;  // only shown
};

// Whether a name may appear in a line of CLIENT LIST: printable ASCII without spaces, and not too long. An
// empty name removes the one that was set.
inline bool is_client_name(std::string_view name) {
  constexpr std::size_t kMaxBytes = 256;  // guess
  return name.size() <= kMaxBytes && std::ranges::all_of(name, [](char c) { return c > ' ' && c <= '~'; });
}

// Redis' text, also for a name that is too long.
inline constexpr std::string_view kBadClientName =
    "ERR Client names cannot contain spaces, newlines or special characters.";

}  // namespace locksley::daemon

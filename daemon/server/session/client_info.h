// The facts that a client gives about itself. A plain value of a Session.
#pragma once

#include <cstdint>
#include <string>

#include "proto/reply_writer.h"

namespace locksley::daemon {

// The names that a client has given itself, and the form in which it wants its replies. Set by
// HELLO and CLIENT, shown by CLIENT LIST.
struct ClientInfo {
  // The mode that CLIENT REPLY has set.
  enum class ReplyMode : std::uint8_t { kOn, kOff, kSkipNext, kSkipping };

  proto::Protocol protocol = proto::Protocol::kResp2;
  ReplyMode reply_mode = ReplyMode::kOn;
  std::string name;
  std::string library_name;
  std::string library_version;
  bool no_evict = false;  // only shown
};

}  // namespace locksley::daemon

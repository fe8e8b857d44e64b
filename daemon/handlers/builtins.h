// The handlers that the daemon brings along: echo, sha256, sleep, spin, fail, fib.
#pragma once

#include <memory>
#include <vector>

#include "core/handler.h"

namespace locksley::daemon {

// All of them, new and registered nowhere: the caller owns them, and they outlive the last batch that uses
// them. What they do with their payloads is in daemon/handlers/README.md. Throws std::runtime_error if the
// cryptographic library has no SHA-256.
std::vector<std::unique_ptr<Handler>> register_builtins();

}  // namespace locksley::daemon

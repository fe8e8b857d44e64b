// The built-in handlers: echo, sha256, sleep, spin, fail, fib. Any thread; nothing blocks.
#pragma once

#include <memory>
#include <vector>

#include "core/batch/handler.h"

namespace locksley::daemon {

// Creates all of them. The caller owns them; they must outlive the last batch that uses them.
// README.md describes their payloads and outputs. Throws std::runtime_error if the cryptographic
// library has no SHA-256.
std::vector<std::unique_ptr<Handler>> register_builtins();

}  // namespace locksley::daemon

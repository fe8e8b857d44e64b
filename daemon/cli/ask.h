#pragma once

#include <string>

#include "daemon/cli/signals.h"

namespace locksley::cli {

enum class Answer { kCancel, kLeave, kGoOn };

// After Ctrl-C in `run`: asks on the terminal what shall become of the batch. A second Ctrl-C, or any other
// signal, while it asks: leave. Without a terminal: cancel. Blocks until there is an answer.
Answer ask_after_interrupt(Signals& signals, const std::string& batch);

}  // namespace locksley::cli

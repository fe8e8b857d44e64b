// How the words after `--` come through CLI11 unchanged.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "daemon/cli/context/options.h"

namespace locksley::cli {

// The words after `--`, which are payloads whatever they look like. CLI11 forgets `--` once all
// positionals of a command have a word, and takes `-5` for an option; so these words carry a mark
// while CLI11 reads them. Plain functions; nothing blocks or fails.

// Marks the words after the first `--` of `submit`, `run`, `results`, `work` and `exec`, and
// removes `--`. Returns how many words these are.
std::size_t mark_payload_words(std::vector<std::string>& arguments);

// Removes the marks from the last `count` words of the handler and the payloads.
void unmark_payload_words(SubmitArguments& submit, std::size_t count);
// The same for a command with other words than payloads.
void unmark_payload_words(std::vector<std::string>& words, std::string& handler, std::size_t count);

}  // namespace locksley::cli

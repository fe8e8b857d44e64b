// Whether all outputs of a batch can be written beside one another, before any job runs.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "daemon/cli/names/path_template.h"
#include "proto/clients/cpp/error.h"

namespace locksley::cli {

// The name of the input of a job; none if it is not known.
using NameOf = std::function<std::optional<std::string>(std::uint64_t index)>;

enum class NamesAre : std::uint8_t { kText, kFiles };

// Whether all outputs of a batch can be written: each has a path of its own, no path is the folder
// of another one, and with NamesAre::kFiles none is that of an input. Fails with kLocal; the
// message names the inputs.
//
// Paths are compared as text: relative ones as those in the current folder, `.` and `..` resolved,
// links not. Takes 16 bytes for each job, 32 with files, and about a microsecond for each job. Does
// not block otherwise.
client::Expected<void> check_paths(const PathTemplate& paths, std::uint64_t jobs, const NameOf& name_of,
                                   NamesAre names_are);

}  // namespace locksley::cli

// The flags of `submit` and `run` that say how a batch is run and kept.
#pragma once

#include <CLI/CLI.hpp>
#include <chrono>
#include <optional>
#include <string>
#include <type_traits>

#include "config/units.h"
#include "proto/batch_options.h"

namespace locksley::cli {

// An option whose value is a duration such as 500ms or 10s, at least one of `Unit`.
template <class Unit>
void add_duration(CLI::App& command, const std::string& name, std::optional<Unit>& into,
                  const std::string& help) {
  command
      .add_option_function<std::string>(
          name,
          [&into, name](const std::string& text) {
            const auto duration = config::parse_duration(text);
            if (!duration) {
              throw CLI::ValidationError(
                  name, "'" + text + "' is not a duration such as 500ms, 10s, 5m, 24h or 3d");
            }
            const auto value = std::chrono::duration_cast<Unit>(*duration);
            if (value != *duration) {
              throw CLI::ValidationError(
                  name, "'" + text + "' is finer than the " +
                            (std::is_same_v<Unit, std::chrono::seconds> ? "second" : "millisecond") +
                            " that the daemon counts in");
            }
            into = value;
          },
          help)
      ->type_name("DURATION");
}

// For Option::check(): refuses an empty text, which is most likely a variable that is not set, and
// would count as an option that is not given.
std::string refuse_empty(const std::string& text);

// Adds a flag for each row of proto's table of options. `batch` outlives the parsing. Plain
// functions; a value that is not allowed ends the parsing with CLI::ValidationError.
void add_batch_options(CLI::App& command, proto::BatchOptions& batch);

}  // namespace locksley::cli

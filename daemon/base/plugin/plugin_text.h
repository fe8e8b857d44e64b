// Texts across the ABI of plugins, and the errors of jobs for which the plugin gives no text: the
// same words whether the job ran on the pool or in a worker.
#pragma once

#include <string_view>

#include "core/plugin.h"

namespace locksley::daemon {

inline locksley_text text(std::string_view view) { return {view.data(), view.size()}; }
inline std::string_view view(locksley_text text) {
  return text.size == 0 ? std::string_view() : std::string_view(text.data, text.size);
}

inline constexpr std::string_view kNoReason = "the plugin failed without giving a reason";
inline constexpr std::string_view kGaveUpUnasked = "the plugin gave up although it was not asked to stop";
inline constexpr std::string_view kOnlyTheJobWrites =
    "only the job itself can write: this is a sub-job or a loop";
inline constexpr std::string_view kLargeArgument =
    "a sub-job's argument is larger than LOCKSLEY_MOST_ARGUMENT";

}  // namespace locksley::daemon

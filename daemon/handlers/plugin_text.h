// Texts that pass between us and a plugin, and what a job's error says where the plugin itself says nothing
// useful: the same words wherever the job ran.
#pragma once

#include <string_view>

#include "core/plugin.h"

namespace locksley::daemon {

inline locksley_text text(std::string_view view) { return {view.data(), view.size()}; }
inline std::string_view view(locksley_text text) {
  return text.size == 0 ? std::string_view() : std::string_view(text.data, text.size);
}

inline constexpr std::string_view kNoReason = "the plugin says no more than that it failed";
inline constexpr std::string_view kGaveUpUnasked = "the plugin gave up, but nobody had asked it to stop";
inline constexpr std::string_view kOnlyTheJobWrites =
    "only the job itself can write: this is a sub-job or a loop";
inline constexpr std::string_view kLargeArgument =
    "a sub-job's argument is larger than LOCKSLEY_MOST_ARGUMENT";

}  // namespace locksley::daemon

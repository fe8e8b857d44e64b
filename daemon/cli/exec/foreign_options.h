// Options of xargs and GNU parallel that `locksley exec` reads otherwise, or does not have.
#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>

namespace locksley::cli {

// What to use instead of an option of xargs or GNU parallel that `locksley exec` does not have;
// empty: it is none of these. `word`: as it was written, such as --tagstring=x or -L1.
std::string_view instead_of_option(std::string_view word);

// -j of GNU parallel: a number of jobs; 0 for as many as the daemon allows, which gives
// std::nullopt; or a number relative to the processors of this machine, such as 50%, +1 or -1,
// which is at least 1. The error is for the user.
std::expected<std::optional<std::uint32_t>, std::string> jobs_at_once(std::string_view text,
                                                                      unsigned processors);

}  // namespace locksley::cli

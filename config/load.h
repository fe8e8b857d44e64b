#pragma once

#include <expected>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/config.h"
#include "config/problem.h"

namespace locksley::config {

// Larger files are refused: a configuration has a few kilobytes, with 10,000 users one and a half megabytes,
// and the YAML library needs half a second for each.
constexpr std::size_t kMaxFileBytes = std::size_t{4} << 20;

// Reads, checks and returns a configuration. An empty file is fine: everything has a default. Anything else
// that is not wholly right gives all problems of the file at once, in the order of their lines, never a part
// of a configuration; only a syntax error hides what comes after it. The vector is never empty. Any thread;
// reads the file and nothing else; throws nothing but std::bad_alloc.
std::expected<Config, std::vector<Problem>> load_file(const std::filesystem::path& path);

// The same for a text. `file_name` stands in the problems only.
std::expected<Config, std::vector<Problem>> load_text(std::string_view text, const std::string& file_name);

// `config`, but for some values by dotted key, written as dump() writes them; held to the same rules as a
// file, and again all of it or nothing. The problems name no file. Any thread.
std::expected<Config, std::vector<Problem>> with_values(
    const Config& config, std::span<const std::pair<std::string, std::string>> values);

}  // namespace locksley::config

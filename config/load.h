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

// Larger files are refused: a configuration has a few kilobytes, with 10,000 users one and a half
// megabytes, and the YAML library needs half a second for each.
constexpr std::size_t kMaxFileBytes = std::size_t{4} << 20;

// Reads, checks and returns a configuration. An empty file is valid: all keys have defaults.
// Otherwise returns all problems of the file, in the order of their lines, never a part of a
// configuration; only a syntax error hides the problems after it. The vector is never empty. Any
// thread. Reads no other file. Throws nothing but std::bad_alloc.
std::expected<Config, std::vector<Problem>> load_file(const std::filesystem::path& path);

// The same for a text. `file_name` is used only in the problems.
std::expected<Config, std::vector<Problem>> load_text(std::string_view text, const std::string& file_name);

// Puts the file's name and the position of the key, or of its section, in front of each message
// that begins with a dotted key, such as "handlers.lines.command: there is no such program", in the
// form of problems: "f.yaml:12:20: ". Other messages stay as they are; so do all messages if the
// file cannot be read. Reads the file again. Any thread.
std::vector<std::string> with_positions(const std::filesystem::path& path, std::vector<std::string> messages);

// `config` with other values for some dotted keys, written as dump() writes them and checked by the
// rules of a file: all values are accepted, or none. The problems name no file. Any thread.
std::expected<Config, std::vector<Problem>> with_values(
    const Config& config, std::span<const std::pair<std::string, std::string>> values);

}  // namespace locksley::config

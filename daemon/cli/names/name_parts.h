// The parts of a file's name, and the replacement strings that stand for them. Any thread; nothing
// blocks or fails.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace locksley::cli {

// The parts of a file's name, as the replacement strings of GNU parallel define them. The results
// are views into `name`.
std::string_view base_of(std::string_view name);
// As dirname(1).
std::string_view folders_of(std::string_view name);
// The extension begins at the last dot, as long as no slash follows.
std::string_view without_extension(std::string_view name);

// What the replacement strings {}, {.}, {/}, {//} and {/.} stand for.
enum class NamePart : std::uint8_t { kWhole, kWithoutExtension, kBase, kFolders, kBaseWithoutExtension };
std::string_view part_of(std::string_view name, NamePart part);

// A replacement string: {#}, the number of the job; one of the above; or the same of one argument,
// such as {2/.}.
struct Replacement {
  bool is_number = false;
  NamePart part = NamePart::kWhole;
  std::size_t position = 0;  // of the argument, from 1; 0: all
};
// Reads the replacement string that `text` begins with; returns its length, or 0: there is none.
std::size_t read_replacement(std::string_view text, Replacement& replacement);

}  // namespace locksley::cli

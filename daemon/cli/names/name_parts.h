#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace locksley::cli {

// The parts of a name of a file, as the replacement strings of GNU parallel have them. Views into
// it.
std::string_view base_of(std::string_view name);
// As dirname(1).
std::string_view folders_of(std::string_view name);
// The extension begins at the last dot, as long as no slash follows.
std::string_view without_extension(std::string_view name);

// What the replacement strings {}, {.}, {/}, {//} and {/.} stand for.
enum class NamePart : std::uint8_t { kWhole, kWithoutExtension, kBase, kFolders, kBaseWithoutExtension };
// `mark`: what is between the braces. None: it is not one of these.
std::optional<NamePart> name_part_of(std::string_view mark);
std::string_view part_of(std::string_view name, NamePart part);

}  // namespace locksley::cli

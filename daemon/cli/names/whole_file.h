// Writes one file as a whole.
#pragma once

#include <string>
#include <string_view>

#include "proto/clients/cpp/error.h"

namespace locksley::cli {

// Writes a file of these bytes in place of what is there. Does not follow a symbolic link that is
// there, because in a folder that others may write, the link may lead to any file of the user.
// Links among the folders of the path are followed. Blocks for the file system; fails with kLocal,
// and the path.
client::Expected<void> write_whole_file(const std::string& path, std::string_view bytes);

}  // namespace locksley::cli

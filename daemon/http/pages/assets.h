// The files of the dashboard, which are embedded in the program.
#pragma once

#include <span>
#include <string_view>

#include "daemon/http/router.h"

namespace locksley::daemon {

// A file, as it is served. Constant: any thread.
struct Asset {
  std::string_view path;
  std::string_view content_type;
  std::string_view etag;  // of the bytes; with its quotes
  std::string_view bytes;
};

// The files of dashboard/ at the time of the build.
std::span<const Asset> dashboard_assets();

// Adds a page for each file, for all users: a browser then sends the same login to /api/.
void add_assets(Router& router, std::span<const Asset> assets);

}  // namespace locksley::daemon

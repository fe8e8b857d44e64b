// The files of the dashboard, which are part of the program.
#pragma once

#include <span>
#include <string_view>

#include "daemon/http/router.h"

namespace locksley::daemon {

// A file as it is served. Constant for the whole run.
struct Asset {
  std::string_view path;
  std::string_view content_type;
  std::string_view etag;  // with its quotes; of the content
  std::string_view bytes;
};

// Those of dashboard/, as they were when the program was built.
std::span<const Asset> dashboard_assets();

// Adds a page for each, for whoever may log in: a browser then sends the same login to /api/.
void add_assets(Router& router, std::span<const Asset> assets);

}  // namespace locksley::daemon

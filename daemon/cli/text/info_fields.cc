#include "daemon/cli/text/info_fields.h"

#include <algorithm>

namespace locksley::cli {

std::vector<std::pair<std::string, std::string>> info_fields(std::string_view text) {
  std::vector<std::pair<std::string, std::string>> fields;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    const std::size_t colon = line.find(':');
    if (line.starts_with('#') || colon == std::string_view::npos) continue;
    fields.emplace_back(line.substr(0, colon), line.substr(colon + 1));
  }
  return fields;
}

}  // namespace locksley::cli

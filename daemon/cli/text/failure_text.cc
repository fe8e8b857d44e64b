#include "daemon/cli/text/failure_text.h"

#include <nlohmann/json.hpp>

namespace locksley::cli {
namespace {

// The packages write no longer text, because the daemon takes a line of up to 64 KiB from a worker.
// So a longer output of another program is not parsed.
constexpr std::size_t kLongestText = std::size_t{64} << 10;

std::optional<std::string> string_of(const nlohmann::json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_string()) return std::nullopt;
  return found->get<std::string>();
}

}  // namespace

std::optional<FailureText> failure_text(std::string_view text) {
  const std::size_t tab = text.find('\t');
  if (text.size() > kLongestText || tab == text.npos || !text.substr(tab + 1).starts_with('{')) return {};
  const auto detail = nlohmann::json::parse(text.substr(tab + 1), nullptr, /*allow_exceptions=*/false);
  if (!detail.is_object() || !string_of(detail, "exception")) return {};
  auto traceback = string_of(detail, "traceback");
  if (!traceback) return {};
  return FailureText{text.substr(0, tab), *std::move(traceback)};
}

}  // namespace locksley::cli

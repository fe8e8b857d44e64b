#include "daemon/http/hosts.h"

#include <unistd.h>

#include <algorithm>
#include <array>

#include "daemon/http/same_origin.h"
#include "proto/text.h"

namespace locksley::daemon {

std::string name_of_machine() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return {};
  return name.data();
}

bool HttpHosts::accepts(std::string_view host) const {
  if (is_plain_host(host)) return true;
  const std::string_view name = name_in(host);
  const auto is_it = [name](const std::string& known) { return proto::equals_ignoring_case(name, known); };
  return !name.empty() && (is_it(machine_) || std::ranges::any_of(names_, is_it));
}

}  // namespace locksley::daemon

// The names under which the pages are served while no login is configured.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace locksley::daemon {

// The name of this machine, as the kernel has it; empty if there is none.
std::string name_of_machine();

// Checks the field Host of a request that carries no login. A web page can make a name of its own
// resolve to this machine (DNS rebinding); its scripts could then read our pages with the browser
// of a user who can reach them. So these names are served: IP addresses, `localhost`, the name of
// this machine, and the names in `http.hosts`.
//
// Owned beside the Router, outlives it. The I/O thread, or main's before that runs. Nothing
// blocks or fails.
class HttpHosts {
 public:
  explicit HttpHosts(std::string machine = name_of_machine()) : machine_(std::move(machine)) {}

  // The names of `http.hosts`, in place of the earlier ones.
  void set(std::vector<std::string> names) { names_ = std::move(names); }

  // `host`: the value of the field, with or without a port; upper and lower case are equal.
  bool accepts(std::string_view host) const;

 private:
  const std::string machine_;
  std::vector<std::string> names_;
};

}  // namespace locksley::daemon

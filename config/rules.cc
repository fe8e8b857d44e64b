#include "config/rules.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>

namespace locksley::config {
namespace {

// The operating system would end the text at a NUL.
bool has_no_nul(std::string_view text) { return text.find('\0') == std::string_view::npos; }

bool is_text(std::string_view text) { return !text.empty() && has_no_nul(text); }

bool is_address(std::string_view text) {
  if (!has_no_nul(text)) return false;
  const std::string copy(text);
  in6_addr parsed{};  // the larger of the two
  return inet_pton(AF_INET, copy.c_str(), &parsed) == 1 || inet_pton(AF_INET6, copy.c_str(), &parsed) == 1;
}

// Names are used in commands, metric labels and dotted keys, so they contain no dot and no space.
constexpr std::size_t kLongestName = 64;

bool is_name(std::string_view text) {
  const auto ordinary = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  };
  return !text.empty() && text.size() <= kLongestName && std::ranges::all_of(text, ordinary);
}

// Names of devices, such as GPU-8932f937 and 0000:01:00.0.
constexpr std::size_t kLongestSlotName = 128;

bool is_slot_name(std::string_view text) {
  return !text.empty() && text.size() <= kLongestSlotName &&
         std::ranges::all_of(text, [](char c) { return c > ' ' && c <= '~'; });
}

// The longest name in the DNS.
constexpr std::size_t kLongestHost = 253;

bool is_host(std::string_view text) {
  const auto ordinary = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  };
  return !text.empty() && text.size() <= kLongestHost && std::ranges::all_of(text, ordinary);
}

// User and host; a password would be shown with the configuration.
bool is_url(std::string_view text) {
  if (text.empty()) return true;
  std::string_view rest = text;
  if (rest.starts_with("rediss://")) {
    rest.remove_prefix(9);
  } else if (rest.starts_with("redis://")) {
    rest.remove_prefix(8);
  } else {
    return false;
  }
  const std::size_t at = rest.find('@');
  const bool has_password = at != std::string_view::npos && rest.substr(0, at).contains(':');
  const std::string_view host = at == std::string_view::npos ? rest : rest.substr(at + 1);
  const auto is_printable = [](char c) { return c > ' ' && c <= '~'; };
  return !host.empty() && !has_password && std::ranges::all_of(text, is_printable);
}

bool is_host_or_bracketed(std::string_view text) {
  const bool is_bracketed = text.starts_with('[') && text.ends_with(']');
  return is_bracketed ? is_address(text.substr(1, text.size() - 2)) : is_host(text);
}

bool is_port(std::string_view text) {
  unsigned number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && number >= 1 && number <= 65535;
}

// host:port, [IPv6]:port.
bool is_advertised(std::string_view text) {
  if (text.empty()) return true;
  const std::size_t colon = text.rfind(':');
  return colon != std::string_view::npos && is_host_or_bracketed(text.substr(0, colon)) &&
         is_port(text.substr(colon + 1));
}

bool is_database(std::string_view text) {
  std::string_view rest = text;
  if (rest.starts_with("postgresql://")) {
    rest.remove_prefix(13);
  } else if (rest.starts_with("postgres://")) {
    rest.remove_prefix(11);
  } else {
    return false;
  }
  const std::string_view authority = rest.substr(0, rest.find_first_of("/?"));
  const auto is_printable = [](char c) { return c > ' ' && c <= '~'; };
  // A second @ would be part of the name of a host, which messages show.
  return std::ranges::count(authority, '@') <= 1 && std::ranges::all_of(text, is_printable);
}

// The name of a lane may follow it.
constexpr std::size_t kLongestWorkerName = 128;

bool is_worker_name(std::string_view text) {
  const auto is_printable = [](char c) { return c > ' ' && c <= '~'; };
  return text.size() <= kLongestWorkerName && std::ranges::all_of(text, is_printable);
}

bool is_absolute(std::string_view text) { return text.starts_with('/') && has_no_nul(text); }

bool is_variable(std::string_view text) {
  const std::string_view name = text.substr(0, text.find('='));
  const auto ordinary = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  return name.size() < text.size() && !name.empty() && !(name[0] >= '0' && name[0] <= '9') &&
         std::ranges::all_of(name, ordinary) && has_no_nul(text);
}

template <class T>
std::optional<std::string> outside(const Bounds<T>& bounds, const T& value) {
  if (value < bounds.low || bounds.high < value) return describe(bounds);
  return std::nullopt;
}

}  // namespace

std::vector<std::string_view> hosts_and_ports_of(std::string_view url) {
  std::string_view rest = url.substr(url.find("://") + 3);
  rest = rest.substr(0, rest.find('/'));
  if (const std::size_t at = rest.find('@'); at != std::string_view::npos) rest.remove_prefix(at + 1);
  std::vector<std::string_view> found;
  for (;;) {
    const std::size_t comma = rest.find(',');
    found.push_back(rest.substr(0, comma));
    if (comma == std::string_view::npos) return found;
    rest.remove_prefix(comma + 1);
  }
}

bool is_host_and_port(std::string_view text) {
  return is_host_or_bracketed(text) || (!text.empty() && is_advertised(text));
}

bool is_of_this_machine(std::string_view host_and_port) {
  if (host_and_port.starts_with("[::1]")) return true;
  const std::string_view host = host_and_port.substr(0, host_and_port.find(':'));
  return host == "localhost" ||
         (host.starts_with("127.") && host.find_first_not_of("0123456789.") == std::string_view::npos);
}

std::optional<std::string> fault_of_database(std::string_view text) {
  if (text.empty() || is_database(text)) return std::nullopt;
  return "another text, which is not shown because it may have a password";
}

const TextRule kAddress{"an IPv4 or IPv6 address such as 127.0.0.1", is_address};
const TextRule kName{"a name of at most 64 letters, digits, - and _", is_name};
const TextRule kSlotName{"a name of at most 128 printable characters without spaces", is_slot_name};
const TextRule kText{"a text that is not empty", is_text};
const TextRule kFileName{"the name of a file", has_no_nul};
const TextRule kUser{"the name of a user of this machine", has_no_nul};
const TextRule kUrl{"a URL such as rediss://user@host:7771, without a password", is_url};
const TextRule kWorkerName{"a name of at most 128 printable characters without spaces", is_worker_name};
const TextRule kAdvertised{"host:port, such as queue-1.example:7770 or [2001:db8::1]:7770", is_advertised};
const ListRule kHosts{{"the name of a host, without a port, such as locksley.example", is_host},
                      ListRule::Empty::kAllowed};
const ListRule kArguments{{"a program and its arguments", has_no_nul}};
const ListRule kNames{kName};
const ListRule kNamesOrNone{kName, ListRule::Empty::kAllowed};
const ListRule kPaths{{"the absolute name of a file or folder", is_absolute}};
const ListRule kVariables{{"a variable such as LANG=C.UTF-8", is_variable}};

std::string describe(const Bounds<std::uint64_t>& bounds) {
  return "a whole number from " + std::to_string(bounds.low) + " to " + std::to_string(bounds.high);
}
std::string describe(const Bounds<Duration>& bounds) {
  return "a duration from " + to_string(bounds.low) + " to " + to_string(bounds.high);
}
std::string describe(const Bounds<Bytes>& bounds) {
  return "a size from " + to_string(bounds.low) + " to " + to_string(bounds.high);
}
std::string describe(const Bounds<Rate>& bounds) {
  return "a rate with a count from " + std::to_string(bounds.low.count) + " to " +
         std::to_string(bounds.high.count);
}

std::string describe(const LimitRule<std::uint64_t>& rule) { return describe(rule.bounds) + ", or auto"; }
std::string describe(const LimitRule<Bytes>& rule) { return describe(rule.bounds) + ", or auto"; }

std::string describe(const SlotsRule& rule) {
  return describe(rule.count) + ", or a list of names such as [\"0\", \"1\"]";
}

std::optional<std::string> fault(const Bounds<std::uint64_t>& bounds, std::uint64_t value) {
  return outside(bounds, value);
}
std::optional<std::string> fault(const Bounds<Duration>& bounds, Duration value) {
  return outside(bounds, value);
}
std::optional<std::string> fault(const Bounds<Bytes>& bounds, Bytes value) { return outside(bounds, value); }
std::optional<std::string> fault(const Bounds<Rate>& bounds, Rate value) {
  if (value.count < bounds.low.count || value.count > bounds.high.count) return describe(bounds);
  return std::nullopt;
}
std::optional<std::string> fault(const LimitRule<std::uint64_t>& rule, Limit value) {
  if (value.is_auto || !fault(rule.bounds, value.count)) return std::nullopt;
  return describe(rule);
}
std::optional<std::string> fault(const LimitRule<Bytes>& rule, Limit value) {
  if (value.is_auto || !fault(rule.bounds, Bytes{value.count})) return std::nullopt;
  return describe(rule);
}
std::optional<std::string> fault(const SlotsRule& rule, const Slots& value) {
  // None: the check of the lane reports it.
  if (value.count != 0 && fault(rule.count, std::uint64_t{value.count})) return describe(rule);
  return std::nullopt;
}
std::optional<std::string> fault(const ExecRule& rule, const Exec& value) {
  return fault(rule.max_output, value.max_output);
}
std::optional<std::string> fault(const TextRule& rule, const std::string& value) {
  if (!rule.accepts(value)) return std::string(rule.expected);
  return std::nullopt;
}
std::optional<std::string> fault(const ListRule& rule, const std::vector<std::string>& value) {
  for (const std::string& item : value) {
    if (!rule.item.accepts(item)) return std::string(rule.item.expected);
  }
  return std::nullopt;
}

}  // namespace locksley::config

#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"

// Which values a key may have. schema.h gives each key its rule. A rule is applied when the key is
// read, so that the message can quote the file, and again to the finished Config, so that it also
// covers a Config built in code.

namespace locksley::config {

// Numbers, durations and sizes: low <= value <= high.
template <class T>
struct Bounds {
  T low;
  T high;
};

// A Limit: `auto`, or a value within the bounds, whose type says how it is written.
template <class T>
struct LimitRule {
  Bounds<T> bounds;
};

struct TextRule {
  std::string_view expected;  // completes "expected ..."
  bool (*accepts)(std::string_view text);
};

// An item of a list. A list in the file must have at least one, unless kAllowed.
struct ListRule {
  enum class Empty { kRefused, kAllowed };

  TextRule item;
  Empty empty = Empty::kRefused;
};

// The slots of a lane: a number, or a list of names.
struct SlotsRule {
  Bounds<std::uint64_t> count;
  TextRule name;
};

// `exec`: false, true, or a mapping of keys, which also means true.
struct ExecRule {
  static constexpr std::string_view kExpected = "false, true, or a mapping such as {max_output: 64MiB}";
  Bounds<Bytes> max_output;
};

// The hash of a password; see password_hash.h. A text that is not a hash may be a password, and is
// not shown.
struct HashRule {
  static constexpr std::string_view kExpected = "the argon2id hash that `locksley hash-password` prints";
};

// The address of a database, or empty. It may have a password, so it is not shown.
struct DatabaseRule {
  static constexpr std::string_view kExpected =
      "a URL such as postgresql://locksley@db1:5432/locksley; in a password, @ : and / are %40, %3A and %2F";
};
// What is wrong with the text, to follow "found"; none if it is such an address.
std::optional<std::string> fault_of_database(std::string_view text);

// The only rule of an enumeration is its table of words.
struct WordRule {};

extern const TextRule kAddress;     // IPv4 or IPv6, numeric
extern const TextRule kName;        // of a handler or a user
extern const TextRule kSlotName;    // printable, without spaces
extern const TextRule kText;        // at least one character
extern const TextRule kFileName;    // or empty
extern const TextRule kUser;        // likewise; of the machine
extern const TextRule kUrl;         // of an upstream daemon, or several; or empty
extern const TextRule kWorkerName;  // there; or empty
extern const TextRule kAdvertised;  // host:port, where clients of this daemon connect; or empty
extern const ListRule kHosts;       // names, without a port; or empty
extern const ListRule kArguments;
extern const ListRule kNames;
extern const ListRule kNamesOrNone;
extern const ListRule kPaths;
extern const ListRule kVariables;  // of an environment

// The addresses in a URL, separated by commas, after its scheme and its first @.
std::vector<std::string_view> hosts_and_ports_of(std::string_view url);
// Whether the text is HOST, HOST:PORT, [IPv6] or [IPv6]:PORT; and whether that leads to this
// machine.
bool is_host_and_port(std::string_view text);
bool is_of_this_machine(std::string_view host_and_port);

// "a whole number from 0 to 1024", "a duration from 10us to 1s", ...
std::string describe(const Bounds<std::uint64_t>& bounds);
std::string describe(const Bounds<Duration>& bounds);
std::string describe(const Bounds<Bytes>& bounds);
std::string describe(const Bounds<Rate>& bounds);
std::string describe(const LimitRule<std::uint64_t>& rule);
std::string describe(const LimitRule<Bytes>& rule);
std::string describe(const SlotsRule& rule);

// If the value breaks the rule: the expected value, as text.
std::optional<std::string> fault(const Bounds<std::uint64_t>& bounds, std::uint64_t value);
std::optional<std::string> fault(const Bounds<Duration>& bounds, Duration value);
std::optional<std::string> fault(const Bounds<Bytes>& bounds, Bytes value);
std::optional<std::string> fault(const Bounds<Rate>& bounds, Rate value);
std::optional<std::string> fault(const LimitRule<std::uint64_t>& rule, Limit value);
std::optional<std::string> fault(const LimitRule<Bytes>& rule, Limit value);
std::optional<std::string> fault(const SlotsRule& rule, const Slots& value);  // the number; not the names
std::optional<std::string> fault(const ExecRule& rule, const Exec& value);
std::optional<std::string> fault(const TextRule& rule, const std::string& value);
std::optional<std::string> fault(const ListRule& rule, const std::vector<std::string>& value);

}  // namespace locksley::config

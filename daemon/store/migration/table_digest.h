// The digest by which two tables are compared.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "daemon/base/hash128.h"

namespace locksley::daemon {

// A digest of rows in their order. Equal tables have equal digests; it detects mistakes, and is no
// defence against an attacker. A value that cannot be copied; one thread's.
class TableDigest {
 public:
  void add(std::string_view key, std::string_view value);
  // Of all rows so far: 32 hexadecimal digits.
  std::string digits() const;

 private:
  Hash128 hash_;
};

}  // namespace locksley::daemon

// What two tables are compared by.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

struct XXH3_state_s;

namespace locksley::daemon {

// A digest of rows in their order: XXH3 with 128 bits. Equal tables have equal digests; it detects mistakes, and is no
// defence against an attacker. A value that cannot be copied; one thread's.
class TableDigest {
 public:
  TableDigest();
  void add(std::string_view key, std::string_view value);
  // Of all rows so far: 32 hexadecimal digits.
  std::string digits() const;

 private:
  void add_bytes(std::string_view bytes);

  struct Free {
    void operator()(XXH3_state_s* state) const;
  };
  std::unique_ptr<XXH3_state_s, Free> state_;
};

}  // namespace locksley::daemon

// A hash of bytes that come in parts.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

struct XXH3_state_s;

namespace locksley::daemon {

// XXH3 with 128 bits, of the library xxHash. It detects mistakes, and is no defence against an
// adversary.
//
// A value that cannot be copied; one thread's. The constructor throws std::bad_alloc; nothing else
// fails.
class Hash128 {
 public:
  struct Value {
    std::uint64_t low = 0;
    std::uint64_t high = 0;
    friend bool operator==(const Value&, const Value&) = default;
  };

  Hash128();
  void add(std::string_view bytes);
  // The hash of all bytes so far.
  Value value() const;
  // The hash of `bytes` alone, in one step.
  static Value of(std::string_view bytes);

 private:
  struct Free {
    void operator()(XXH3_state_s* state) const;
  };
  std::unique_ptr<XXH3_state_s, Free> state_;
};

}  // namespace locksley::daemon

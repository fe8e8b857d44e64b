// What the fuzz targets share: claims that end the process where they do not hold, and how a target
// takes its input apart.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <source_location>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// What each target defines, and libFuzzer, or replay_main.cc, calls for one input after another in
// one thread. 0, or the process ends.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace locksley::fuzz {

[[noreturn]] inline void fail(std::string_view claim, const std::string& found = {},
                              std::source_location at = std::source_location::current()) {
  std::fprintf(stderr, "%s:%u: does not hold: %.*s%s%s\n", at.file_name(), static_cast<unsigned>(at.line()),
               static_cast<int>(claim.size()), claim.data(), found.empty() ? "" : ": ", found.c_str());
  std::abort();
}

inline void require(bool holds, std::string_view claim,
                    std::source_location at = std::source_location::current()) {
  if (!holds) fail(claim, {}, at);
}

// The bytes of an input, front to back: first what decides how the rest is used, then the rest.
// Where there are none left, zeros. The bytes outlive it.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : left_(reinterpret_cast<const char*>(data), size) {}

  std::uint8_t byte() {
    if (left_.empty()) return 0;
    const auto first = static_cast<std::uint8_t>(left_.front());
    left_.remove_prefix(1);
    return first;
  }
  bool is_empty() const { return left_.empty(); }
  std::string_view rest() { return std::exchange(left_, {}); }

 private:
  std::string_view left_;
};

// Where a stream of bytes is cut into reads: some lengths, used in turn again and again.
class Cuts {
 public:
  // At most 15 bytes behind one that says how many.
  static Cuts of(Input& input) {
    Cuts cuts;
    for (int left = input.byte() % 16; left > 0; --left) {
      constexpr std::size_t kSmall = 192;
      const std::size_t byte = input.byte();
      cuts.lengths_.push_back(byte < kSmall ? byte + 1 : (byte - kSmall) * 1000 + 200);
    }
    return cuts;
  }
  std::vector<std::string_view> apply(std::string_view bytes) const {
    if (lengths_.empty()) return {bytes};
    std::vector<std::string_view> pieces;
    for (std::size_t i = 0; !bytes.empty(); i = (i + 1) % lengths_.size()) {
      const std::size_t length = std::min(lengths_[i], bytes.size());
      pieces.push_back(bytes.substr(0, length));
      bytes.remove_prefix(length);
    }
    return pieces;
  }

 private:
  std::vector<std::size_t> lengths_;  // each at least 1
};

}  // namespace locksley::fuzz

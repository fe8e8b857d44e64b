// The encoder of a client: commands to bytes.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "proto/output_buffer.h"

namespace locksley::proto {

// Encodes commands, as arrays of bulk strings, at the end of an OutputBuffer.
//
//   CommandWriter(out).command({"STATUS", id});
//   writer.begin(3 + jobs.size()); writer.argument("SUBMIT"); …
//
// A small value that refers to a buffer, which must outlive it; used by the buffer's thread.
// Nothing blocks. The caller must write exactly as many arguments as begin() announced.
class CommandWriter {
 public:
  explicit CommandWriter(OutputBuffer& out) : out_(&out) {}

  void begin(std::size_t arguments);
  void argument(std::string_view bytes);
  // The decimal digits of `value`.
  template <std::integral Integer>
  void argument(Integer value) {
    if constexpr (std::signed_integral<Integer>) {
      signed_argument(value);
    } else {
      unsigned_argument(value);
    }
  }

  void command(std::initializer_list<std::string_view> arguments) {
    begin(arguments.size());
    for (std::string_view one : arguments) argument(one);
  }

 private:
  void signed_argument(std::int64_t value);
  void unsigned_argument(std::uint64_t value);

  OutputBuffer* out_;
};

}  // namespace locksley::proto

#pragma once

#include <string_view>
#include <vector>

#include "proto/output_buffer.h"

namespace locksley::client {

// All bytes of `buffer` in order, as views that stay valid as long as it is neither consumed nor cleared.
inline std::vector<std::string_view> pieces_of(const proto::OutputBuffer& buffer) {
  std::vector<std::string_view> pieces(8);
  for (;;) {
    const std::size_t used = buffer.gather(pieces);
    if (used < pieces.size()) {
      pieces.resize(used);
      return pieces;
    }
    pieces.resize(pieces.size() * 2);
  }
}

}  // namespace locksley::client

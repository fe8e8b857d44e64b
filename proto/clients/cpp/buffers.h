// An OutputBuffer as the list of views that Link::send() and Client::send() take. Any thread;
// nothing blocks.
#pragma once

#include <string_view>
#include <vector>

#include "proto/output_buffer.h"

namespace locksley::client {

// The bytes of `buffer` in order, as views that stay valid as long as it is neither consumed nor
// cleared.
inline std::vector<std::string_view> buffers_of(const proto::OutputBuffer& buffer) {
  std::vector<std::string_view> buffers(8);
  for (;;) {
    const std::size_t used = buffer.gather(buffers);
    if (used < buffers.size()) {
      buffers.resize(used);
      return buffers;
    }
    buffers.resize(buffers.size() * 2);
  }
}

}  // namespace locksley::client

// The handler `sha256`.
#pragma once

#include <memory>
#include <string_view>

#include "core/tasks/context.h"

namespace locksley::daemon {

// Writes the SHA-256 of the payload as 64 hexadecimal digits. Any worker, many at once: copies
// share the algorithm, which is constant, and each thread has its own digest context. Does not
// block. A long payload is given up soon after the job is cancelled. Throws std::runtime_error if
// the cryptographic library fails.
class Sha256 {
 public:
  // Looks the algorithm up once, because a look-up costs more than the digest of a small payload.
  // Throws std::runtime_error if there is none.
  Sha256();

  void operator()(JobContext& context, std::string_view payload) const;

 private:
  std::shared_ptr<const void> algorithm_;  // an EVP_MD; the last copy frees it
};

}  // namespace locksley::daemon

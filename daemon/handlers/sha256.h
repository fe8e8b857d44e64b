// The handler `sha256`.
#pragma once

#include <memory>
#include <string_view>

#include "core/context.h"

namespace locksley::daemon {

// Writes the SHA-256 of the payload as 64 hexadecimal digits. Called by many workers at once; copies share
// the algorithm, which is constant, and each thread has a digest context of its own. Long payloads see
// cancellation.
class Sha256 {
 public:
  // Looks the algorithm up, once: doing so for every digest costs more than digesting a small payload. Throws
  // std::runtime_error if there is none.
  Sha256();

  void operator()(JobContext& context, std::string_view payload) const;

 private:
  std::shared_ptr<const void> algorithm_;  // an EVP_MD; the last copy frees it
};

}  // namespace locksley::daemon

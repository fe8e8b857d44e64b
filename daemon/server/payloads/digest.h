// The digest of the payloads of a batch.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "daemon/base/hash128.h"
#include "daemon/base/time.h"
#include "proto/argument_list.h"

namespace locksley::daemon {

// The hash of the lengths and bytes of all payloads of a batch. It tells a repeated submission from
// a different batch with the same id. A forged collision harms only the user that made it: ids
// belong to one user.
using Digest = Hash128::Value;

// Computes the digest of a list part by part, for a thread that must not work for long.
//
// A local variable of the caller, as is the list, which must not change meanwhile. One thread.
// Nothing blocks. The constructor throws std::bad_alloc.
class DigestInParts {
 public:
  // The payloads are the arguments from `first` on.
  DigestInParts(const proto::ArgumentList& arguments, std::size_t first);
  ~DigestInParts();
  DigestInParts(const DigestInParts&) = delete;
  DigestInParts& operator=(const DigestInParts&) = delete;

  // Goes on until about `until`. Returns the digest when it is complete.
  std::optional<Digest> go_on(Instant until);

 private:
  struct State;

  const std::unique_ptr<State> state_;
  proto::ArgumentList::Iterator at_;
  const proto::ArgumentList::Iterator end_;
  std::size_t offset_ = 0;  // of the first byte of *at_ that is not in the digest yet
};

// The same at once: about 10 ns a payload. Throws std::bad_alloc.
Digest digest_of(const proto::ArgumentList& payloads);

}  // namespace locksley::daemon

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "core/payload.h"
#include "proto/argument_list.h"
#include "proto/submit_options.h"

namespace locksley::daemon {

class ReceivedPayloads;

// 128 bits of XXH3 over the lengths and bytes of all payloads. Not against an adversary, who could only fool
// himself.
struct Digest {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  friend bool operator==(const Digest&, const Digest&) = default;
};
Digest digest_of(const proto::ArgumentList& payloads);

// What a batch's jobs were when it was accepted, as far as it takes to tell whether the same id comes again
// with the same jobs. Nothing is computed when a batch is accepted: a second submission is compared with the
// payloads while these are there. They go when the batch is over; of a batch whose id its client chose a
// digest stays in their place. (About 10 ns a payload, once, at the end; ids that the daemon makes are known
// to nobody who could submit them again.)
struct Content {
  // How the jobs came; one of these, or none for an empty OPEN.
  std::unique_ptr<proto::RangeSource> range;
  ReceivedPayloads* received = nullptr;  // owned by the batch; null once they are gone
  std::optional<Digest> digest;
  std::uint64_t jobs = 0;

  bool is_same(const proto::ArgumentList& payloads) const;
  bool is_same(const proto::RangeSource& other) const;
  // The batch is over. `keep_digest`: its id may come again. `stored`: where the payloads are read from,
  // should it go on.
  void release(bool keep_digest, std::unique_ptr<PayloadSource> stored = nullptr);
};

}  // namespace locksley::daemon

#include "daemon/server/payloads/received_payloads.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"

namespace locksley::daemon {

ReceivedPayloads::ReceivedPayloads(proto::ArgumentList payloads, OpenStored open_stored,
                                   std::optional<Digest> digest)
    : open_stored_(std::move(open_stored)), jobs_(payloads.size()), digest_(digest) {
  payloads.compact();
  memory_bytes_ = payloads.memory_bytes();
  payloads_ = std::make_shared<const proto::ArgumentList>(std::move(payloads));
}

std::size_t ReceivedPayloads::fetch(std::uint64_t first, std::span<std::string_view> out,
                                    std::string& scratch) {
  if (stored_ != nullptr) return stored_->fetch(first, out, scratch);
  check(payloads_->fetch(first, out) == out.size(), "a job beyond the end of its batch was claimed");
  return out.size();
}

BatchPayloads::Released ReceivedPayloads::release(FailedJobs failed_jobs, Repetition repetition) {
  // If the batch went on after its end and is over again, it was released before.
  if (payloads_ == nullptr) {
    if (stored_ != nullptr) stored_->drop_cached();
    return {};
  }
  // Computed even if the payloads stay: when they are evicted later, so are many others at once.
  if (repetition == Repetition::kPossible && !digest_) digest_ = digest_of(*payloads_);
  if (failed_jobs == FailedJobs::kMayRunAgain) {
    if (!open_stored_) return {.freed = nullptr, .freed_bytes = 0, .kept_bytes = memory_bytes_.load()};
    stored_ = open_stored_();
  }
  memory_bytes_ = 0;
  const std::uint64_t bytes = payloads_->memory_bytes();
  return {.freed = std::exchange(payloads_, nullptr), .freed_bytes = bytes};
}

std::optional<HeldPayload> ReceivedPayloads::in_memory(std::uint64_t index) {
  if (payloads_ == nullptr) return std::nullopt;
  std::string_view payload;
  payloads_->fetch(static_cast<std::size_t>(index), {&payload, 1});
  return HeldPayload{payloads_, payload};
}

bool ReceivedPayloads::is_same(const proto::ArgumentList& payloads) const {
  if (payloads.size() != jobs_) return false;
  if (payloads_ != nullptr) return std::equal(payloads.begin(), payloads.end(), payloads_->begin());
  return digest_.has_value() && *digest_ == digest_of(payloads);
}

}  // namespace locksley::daemon

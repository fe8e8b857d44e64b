#include "daemon/server/received_payloads.h"

#include <utility>

#include "core/check.h"

namespace locksley::daemon {

ReceivedPayloads::ReceivedPayloads(proto::ArgumentList payloads) {
  payloads.compact();
  memory_bytes_ = payloads.memory_bytes();
  payloads_ = std::make_shared<const proto::ArgumentList>(std::move(payloads));
}

void ReceivedPayloads::fetch(std::uint64_t first, std::span<std::string_view> out, std::string& scratch) {
  if (stored_ != nullptr) return stored_->fetch(first, out, scratch);
  check(payloads_->fetch(first, out) == out.size(), "a job beyond the end of its batch was claimed");
}

void ReceivedPayloads::release(std::unique_ptr<PayloadSource> stored) {
  stored_ = std::move(stored);
  payloads_ = nullptr;
  memory_bytes_ = 0;
}

}  // namespace locksley::daemon

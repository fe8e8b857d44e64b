// Payloads in the blocks in which a SUBMIT or a RUN brought them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "daemon/server/payloads/batch_payloads.h"

namespace locksley::daemon {

// The payloads of a SUBMIT or a RUN, left in the blocks in which they were received.
//
// Workers fetch without a lock: the list does not change until release(), which is called when the
// batch is over: no worker fetches a payload any more. Nothing blocks or fails until then.
// Afterwards payloads are read from the store, if failed jobs run again.
class ReceivedPayloads final : public BatchPayloads {
 public:
  // Copies the payloads into a block of their own if they would keep far more memory than they
  // need. `digest`: of the payloads, if it is known already.
  explicit ReceivedPayloads(proto::ArgumentList payloads, OpenStored open_stored = {},
                            std::optional<Digest> digest = {});

  std::size_t fetch(std::uint64_t first, std::span<std::string_view> out, std::string& scratch) override;
  std::uint64_t memory_bytes() const override {
    return memory_bytes_.load() + (stored_ != nullptr ? stored_->memory_bytes() : 0);
  }

  Released release(FailedJobs failed_jobs, Repetition repetition) override;
  std::optional<HeldPayload> in_memory(std::uint64_t index) override;
  // Compares the payloads themselves while they are in memory, their digest afterwards: it is
  // computed once, when the batch is over.
  bool is_same(const proto::ArgumentList& payloads) const override;
  std::optional<Digest> digest() const override { return digest_; }

  // I/O thread. Null after release(), unless the payloads stay. Another owner of the pointer keeps
  // the list.
  const std::shared_ptr<const proto::ArgumentList>& list() const { return payloads_; }

 private:
  std::shared_ptr<const proto::ArgumentList> payloads_;
  const OpenStored open_stored_;
  std::unique_ptr<PayloadSource> stored_;  // null before release(), or if no job will run again
  const std::size_t jobs_;
  std::optional<Digest> digest_;
  std::atomic<std::uint64_t> memory_bytes_;  // written by the I/O thread, read by any thread: a hint
};

}  // namespace locksley::daemon

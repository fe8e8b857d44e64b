#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "core/payload.h"
#include "proto/argument_list.h"

namespace locksley::daemon {

// The payloads of a SUBMIT or a RUN, left in the blocks they were received in.
//
// Owned by its batch. Any number of workers fetch, without a lock: the list does not change until release(),
// which the I/O thread calls when the batch is over, so that no worker can still want a payload. Nothing
// blocks or fails, until they are left to the store: then as its payloads do.
class ReceivedPayloads final : public PayloadSource {
 public:
  // Copies them into a block of their own where they would keep far more memory than they need.
  explicit ReceivedPayloads(proto::ArgumentList payloads);

  void fetch(std::uint64_t first, std::span<std::string_view> out, std::string& scratch) override;
  std::uint64_t memory_bytes() const override { return memory_bytes_.load(); }

  // I/O thread. Null once they are released; whoever shares the list keeps it.
  const std::shared_ptr<const proto::ArgumentList>& payloads() const { return payloads_; }
  // I/O thread, once the batch is over: frees them. From now on they are read from `stored`; null: nobody
  // will want them.
  void release(std::unique_ptr<PayloadSource> stored = nullptr);

 private:
  std::shared_ptr<const proto::ArgumentList> payloads_;
  std::unique_ptr<PayloadSource> stored_;
  std::atomic<std::uint64_t> memory_bytes_;  // written by the I/O thread, read by anyone: a hint
};

}  // namespace locksley::daemon

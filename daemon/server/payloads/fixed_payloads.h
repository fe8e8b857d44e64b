// Payloads that are computed, or read from the store.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/check.h"
#include "daemon/server/payloads/batch_payloads.h"
#include "daemon/store/read/stored_range.h"
#include "daemon/store/store.h"

namespace locksley::daemon {

// Opens the range of one batch in the store, for executors or for the reader's thread.
using OpenStoredRange = std::function<std::unique_ptr<StoredRange>(Store::Fetched fetched)>;
// `store` outlives the function. `user`: whose batch it is.
inline OpenStoredRange opens_range(Store* store, std::uint64_t sequence, std::int64_t low,
                                   Reader::User user) {
  return [=](Store::Fetched fetched) { return store->range_payloads(sequence, low, user, fetched); };
}

// The payloads of a SUBMIT with RANGE: computed from the range. Its pattern is in memory until the
// batch is over, and afterwards as long as failed jobs may need it. In that case, if the store has
// a row of the pattern, the pattern is in the store alone: fetch() or range() reads it when failed
// jobs run again, and may block. If the read fails, fetch() throws as the store's reads do, and
// range() is null. Nothing else blocks or fails.
class RangedPayloads final : public BatchPayloads {
 public:
  // `open_stored`: empty if the store has no row of the pattern.
  explicit RangedPayloads(RangeJobs range, OpenStoredRange open_stored = {})
      : low_(range.low),
        high_(range.high),
        digest_(range.pattern.digest),
        open_stored_(std::move(open_stored)),
        payloads_(std::make_shared<RangePayloads>(range.low, std::move(range.pattern.text))) {}
  // For a batch that is over and was read back. The pattern has no text. `digest`: of the text, if
  // the client chose the id.
  struct InStoreAlone {};
  RangedPayloads(InStoreAlone, const RangeJobs& range, OpenStoredRange open_stored)
      : low_(range.low),
        high_(range.high),
        digest_(range.pattern.digest),
        open_stored_(std::move(open_stored)),
        stored_(open_stored_(Store::Fetched::kByExecutors)) {}

  std::size_t fetch(std::uint64_t first, std::span<std::string_view> out, std::string& scratch) override {
    if (payloads_ != nullptr) return payloads_->fetch(first, out, scratch);
    check(stored_ != nullptr, "a job of a range runs again although none may");
    return stored_->fetch(first, out, scratch);
  }
  std::uint64_t memory_bytes() const override {
    return (payloads_ != nullptr ? payloads_->memory_bytes() : 0) +
           (stored_ != nullptr ? stored_->memory_bytes() : 0);
  }
  const RangePayloads* range() const override {
    if (payloads_ != nullptr || stored_ == nullptr) return payloads_.get();
    try {
      return stored_->read().get();  // which keeps it
    } catch (const std::runtime_error&) {
      return nullptr;  // fetch() says why
    }
  }

  Released release(FailedJobs failed_jobs, Repetition repetition) override {
    const std::uint64_t bytes = memory_bytes();
    if (stored_ != nullptr) {  // over again
      return {.freed = std::exchange(stored_, open_stored_(Store::Fetched::kByExecutors)),
              .freed_bytes = bytes};
    }
    if (payloads_ == nullptr || !payloads_->pattern()) return {};
    // Without its digest, the pattern itself tells a repetition.
    const bool is_needed = repetition == Repetition::kPossible && !digest_;
    const bool may_run = failed_jobs == FailedJobs::kMayRunAgain;
    if (is_needed || (may_run && !open_stored_)) return {.freed = nullptr, .kept_bytes = bytes};
    if (may_run) stored_ = open_stored_(Store::Fetched::kByExecutors);
    return {.freed = std::exchange(payloads_, nullptr), .freed_bytes = bytes};
  }
  std::optional<HeldPayload> in_memory(std::uint64_t index) override {
    constexpr std::size_t kLong = 64 * 1024;  // some 100 us, if it is full of places
    if (payloads_ == nullptr) return std::nullopt;
    if (payloads_->pattern() && payloads_->pattern()->size() > kLong) return std::nullopt;
    std::string scratch;
    std::string_view payload;
    payloads_->fetch(index, {&payload, 1}, scratch);
    return HeldPayload::of(std::string(payload));
  }
  OpenRange open_range() const override {
    if (payloads_ != nullptr) return [range = payloads_] { return range; };
    if (!open_stored_) return {};
    return [open = open_stored_] { return open(Store::Fetched::kByReader)->read(); };
  }
  bool is_same(const proto::ArgumentList&) const override { return false; }
  bool is_same_range(const RangeJobs& other) const override {
    if (low_ != other.low || high_ != other.high) return false;
    // Comparing digests is cheaper.
    if (digest_ && other.pattern.digest) return digest_ == other.pattern.digest;
    return payloads_ != nullptr && payloads_->pattern() == other.pattern.text;
  }

 private:
  const std::int64_t low_;
  const std::int64_t high_;
  const std::optional<Digest> digest_;  // of the pattern
  const OpenStoredRange open_stored_;
  // At most one of the two is not null; both null: no job can run again.
  std::shared_ptr<RangePayloads> payloads_;
  std::shared_ptr<StoredRange> stored_;
};

// Payloads that are read from the store, with a bounded cache, which release() drops: the batch was
// restored, or memory had no room for them. A fetch may block, and fails, as the store's reads do.
class FetchedPayloads final : public BatchPayloads {
 public:
  // `digest`: of all payloads, if the client chose the id.
  FetchedPayloads(std::unique_ptr<PayloadSource> stored, std::uint64_t jobs, std::optional<Digest> digest)
      : stored_(std::move(stored)), jobs_(jobs), digest_(digest) {}

  std::size_t fetch(std::uint64_t first, std::span<std::string_view> out, std::string& scratch) override {
    return stored_->fetch(first, out, scratch);
  }
  std::uint64_t memory_bytes() const override { return stored_->memory_bytes(); }

  Released release(FailedJobs, Repetition) override {
    stored_->drop_cached();
    return {};
  }
  std::optional<HeldPayload> in_memory(std::uint64_t /*index*/) override { return std::nullopt; }
  bool is_same(const proto::ArgumentList& payloads) const override {
    return payloads.size() == jobs_ && digest_.has_value() && *digest_ == digest_of(payloads);
  }
  std::optional<Digest> digest() const override { return digest_; }

 private:
  const std::unique_ptr<PayloadSource> stored_;
  const std::uint64_t jobs_;
  const std::optional<Digest> digest_;
};

}  // namespace locksley::daemon

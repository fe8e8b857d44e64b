// A PayloadFetcher over an engine in memory, whose server is as slow as the test tells it.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/sync/mutex.h"
#include "daemon/store/read/payload_fetcher.h"
#include "daemon/store/read/reachability.h"
#include "daemon/store/read/stored_payloads.h"
#include "daemon/store/rows/rows.h"
#include "tests/support/memory_engine.h"
#include "tests/support/store_fixture.h"

namespace locksley::daemon {

// Of which batches the fetcher has told that their payloads are there.
class Arrivals {
 public:
  void add(std::uint64_t batch) LOCKSLEY_EXCLUDES(mutex_) {
    {
      const MutexLock lock(mutex_);
      ++told_[batch];
    }
    changed_.notify_all();
  }
  // Returns once the batch was told of so often; false if that does not happen in 30 s.
  bool await(std::uint64_t batch, int times = 1) LOCKSLEY_EXCLUDES(mutex_) {
    const Instant end = now() + std::chrono::seconds(30);
    const MutexLock lock(mutex_);
    while (told_[batch] < times && changed_.wait_until(mutex_, end) == std::cv_status::no_timeout) {
    }
    return told_[batch] >= times;
  }
  int of(std::uint64_t batch) LOCKSLEY_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return told_[batch];
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::map<std::uint64_t, int> told_ LOCKSLEY_GUARDED_BY(mutex_);
};

class PayloadFetcherFixture : public ::testing::Test {
 protected:
  static constexpr PayloadFetcher::Options kImpatient{.patience = std::chrono::milliseconds(0), .threads = 1};
  static constexpr PayloadFetcher::Options kPatient{.patience = std::chrono::hours(1), .threads = 1};

  PayloadFetcherFixture() {
    disk.is_on_network = true;
    engine_ = std::move(disk.engine()({}).value());
    reachability.emplace(*engine_);
  }
  ~PayloadFetcherFixture() override {
    disk.server.let_pass(1'000'000);
    if (fetcher) fetcher->stop();
  }

  // A row of payloads of the batch.
  void put(std::uint64_t batch, std::uint64_t first, const std::vector<std::string>& payloads) {
    const ThreadRoleScope role(kStoreWriter);
    const std::vector<std::string_view> views(payloads.begin(), payloads.end());
    const auto group = engine_->new_group();
    group->put(Table::kPayloads, part_key(batch, first), encode_payload_chunk(views));
    ASSERT_TRUE(engine_->commit(*group, Engine::Sync::kSynced).has_value());
  }
  void begin(PayloadFetcher::Options options) {
    fetcher.emplace(*engine_, *reachability, options);
    fetcher->on_arrival([this](std::uint64_t batch) { arrivals.add(batch); });
  }
  std::unique_ptr<StoredPayloads> payloads(std::uint64_t batch, Reader::User user = 1) {
    return std::make_unique<StoredPayloads>(*fetcher, batch, user);
  }
  // Up to `count` payloads.
  static std::vector<std::string> fetch(PayloadSource& source, std::uint64_t first, std::size_t count = 1) {
    std::vector<std::string_view> views(count);
    std::string scratch;
    views.resize(source.fetch(first, views, scratch));
    return {views.begin(), views.end()};
  }
  using Fetched = std::vector<std::string>;

  testing::TemporaryFolder folder_;
  testing::MemoryDisk disk{folder_.path()};
  std::unique_ptr<Engine> engine_;
  Arrivals arrivals;
  std::optional<Reachability> reachability;
  std::optional<PayloadFetcher> fetcher;
};

}  // namespace locksley::daemon

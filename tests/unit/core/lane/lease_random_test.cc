// Leases of several batches and machines, in a random order of everything that may happen to them.
// LOCKSLEY_SEED repeats a run.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/batch/handler.h"
#include "core/lane/lane_gates.h"
#include "core/lane/lane_view.h"
#include "core/lane/lease.h"
#include "tests/support/pool_fixture.h"
#include "tests/support/seed.h"

namespace locksley {
namespace {

using testing::Row;
using testing::rows_of;

class LeaseRandomTest : public ::testing::Test {
 protected:
  std::uint64_t up_to(std::uint64_t most) { return random() % (most + 1); }

  void submit() {
    BatchOptions options;
    options.tenant = std::string(1, static_cast<char>('a' + up_to(2)));
    if (up_to(1) == 0) options.slots = static_cast<std::uint32_t>(1 + up_to(4));
    auto batch = std::make_shared<Batch>(std::move(options), handler, std::make_unique<RangePayloads>(0));
    lane.submit(batch, 1 + up_to(300), /*open=*/false);
    batches.push_back(std::move(batch));
  }
  // A run of jobs around those of the lease: some of them are its own.
  IndexRange some_of(IndexRange range) {
    const std::uint64_t low = range.low + up_to(range.size()) - std::min(range.low, up_to(3));
    return {low, low + up_to(range.size())};
  }
  void end_some(Lease& lease) {
    const IndexRange jobs = some_of(lease.range());
    const std::vector<std::string_view> outputs(jobs.size(), "x");
    const std::uint64_t before = lease.held().size();
    const auto status = up_to(9) == 0 ? JobStatus::kError : JobStatus::kOk;
    const std::uint64_t recorded = lease.end_jobs(status, jobs.low, outputs, losses);
    EXPECT_EQ(recorded, before - lease.held().size());
  }
  void settle(std::size_t at) {
    std::swap(leases[at], leases.back());
    Lease& lease = *leases.back();
    const Nanoseconds service(up_to(1'000'000));
    charged += service;
    switch (up_to(3)) {
      case 0:
        (void)lease.lose(service, up_to(lease.width()), losses);
        break;
      case 1:
        (void)lease.expire(service, up_to(1), losses);
        break;
      default:
        lease.settle(service);
    }
    leases.pop_back();
  }
  static void check_rows(const Batch& batch) {
    std::vector<Row> rows = rows_of(batch);
    std::ranges::sort(rows, {}, &Row::index);
    ASSERT_EQ(rows.size(), batch.status().jobs);
    for (std::uint64_t i = 0; i < rows.size(); ++i) ASSERT_EQ(rows[i].index, i);
  }
  void replace_if_over(std::size_t at) {
    if (batches.size() < 20) return submit();
    if (!batches[at]->is_over()) return;
    check_rows(*batches[at]);
    batches.erase(batches.begin() + static_cast<std::ptrdiff_t>(at));
    ++over;
    submit();
  }
  void step_lease() {
    const std::size_t at = up_to(leases.size() - 1);
    Lease& lease = *leases[at];
    switch (up_to(9)) {
      case 0:
      case 1:
        return settle(at);
      case 2:
        (void)lease.give_back(lease.range().low + up_to(lease.range().size()));
        return;
      case 3:
        return lease.charge_so_far(Nanoseconds(up_to(1'000'000)));
      case 4:
        return lease.begin();
      default:
        return end_some(lease);
    }
  }
  void step() {
    auto lease = std::make_unique<Lease>(lane, buffers);
    Batch& batch = *batches[up_to(batches.size() - 1)];
    switch (up_to(19)) {
      case 0:
        return replace_if_over(up_to(batches.size() - 1));
      case 1:
        if (lease->reclaim(batch, some_of({0, batch.status().jobs}), 1, 2, losses))
          leases.push_back(std::move(lease));
        return;
      case 2:
        if (up_to(9) == 0) lane.cancel(batch, "cancelled");
        return;
      case 3:
        return lane.pause(batch);
      case 4:
        return lane.resume(batch);
      default:
        break;
    }
    if (leases.empty() || (leases.size() < 12 && up_to(2) == 0)) {
      if (lease->claim({.most_jobs = 1 + up_to(40), .width = static_cast<std::uint32_t>(1 + up_to(3))}))
        leases.push_back(std::move(lease));
      return;
    }
    step_lease();
  }
  // Each index is queued, ended, or held by exactly one lease.
  void check_ledger() {
    std::uint64_t held = 0;
    for (const auto& lease : leases) held += lease->held().size();
    const RingSnapshot ring = lane.view().snapshot(0);
    std::uint64_t jobs = 0, rows = 0;
    for (const auto& batch : batches) {
      const BatchStatus status = batch->status();
      jobs += status.jobs;
      rows += status.rows;
    }
    ASSERT_EQ(ring.queued + held + rows, jobs);
  }

  std::mt19937_64 random = testing::stress_random(3);
  Handler handler{"test", "", [](JobContext&, std::string_view) {}};
  Lane lane{"remote", {.quantum = std::chrono::milliseconds(1), .parallelism = 4}};
  LeaseBuffers buffers;
  LossCounts losses{2};
  std::vector<std::shared_ptr<Batch>> batches;
  std::vector<std::unique_ptr<Lease>> leases;
  Nanoseconds charged{};
  std::uint64_t over = 0;
};

TEST_F(LeaseRandomTest, EachIndexIsRecordedOnceAndAllTimeIsCharged) {
  lane.gates().set_remote(0, true);
  submit();
  for (int i = 0; i < 400'000; ++i) {
    step();
    if (i % 16 != 0) continue;
    ASSERT_NO_FATAL_FAILURE(check_ledger());
  }
  while (!leases.empty()) settle(0);
  for (const auto& batch : batches) lane.resume(*batch);
  Lease lease(lane, buffers);
  while (lease.claim({.most_jobs = 100})) {
    const std::vector<std::string_view> outputs(lease.range().size(), "rest");
    ASSERT_EQ(lease.end_jobs(JobStatus::kOk, lease.range().low, outputs, losses), outputs.size());
    lease.settle(Nanoseconds(0));
  }
  for (const auto& batch : batches) {
    ASSERT_TRUE(batch->is_over());
    check_rows(*batch);
  }
  Nanoseconds busy{};
  for (const TenantView& tenant : lane.view().snapshot(0).tenants) busy += tenant.busy;
  EXPECT_EQ(busy, charged);
  EXPECT_GT(over, 500U) << "batches went through it";
  EXPECT_EQ(lane.view().snapshot(0).executors, 0U);
}

}  // namespace
}  // namespace locksley

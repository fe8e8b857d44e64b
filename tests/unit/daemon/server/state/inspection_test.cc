// What users see of the tenants in the lanes.
#include "daemon/server/state/inspection.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/server/payloads/fixed_payloads.h"
#include "tests/support/server_fixture.h"

namespace locksley::daemon {
namespace {

class InspectionTest : public ServerFixture {
 protected:
  static constexpr std::size_t kTenants = 300;
  // Each has a batch that waits.
  void add_tenants() {
    for (std::size_t i = 0; i < kTenants; ++i) {
      BatchOptions options;
      options.tenant = "tenant-" + std::to_string(1000 + i);
      auto batch = std::make_shared<BatchRecord>(std::move(options), echo_,
                                                 std::make_unique<RangedPayloads>(RangeJobs{}), nullptr,
                                                 lane_, BatchRecord::Origin::kSubmit, i + 1);
      batch->set_hold(Hold::kCommand);
      lane_.submit(batch, 2, /*open=*/false);
      batches_.push_back(std::move(batch));
    }
  }
  std::vector<std::shared_ptr<BatchRecord>> batches_;
};

TEST_F(InspectionTest, AnAdminSeesTheTenantsOfAllPages) {
  start();
  add_tenants();
  Client client(port_);
  EXPECT_EQ(client.ask("TENANTS"), "*301") << "and its own";
  client.bulk();  // the size of the first map, as a line
  EXPECT_EQ(client.bulk(), "tenant");
  EXPECT_EQ(client.bulk(), "default");
  const auto seen = on_io_thread([this] {
    kIoThread.assert_held();
    const auto& state = server_->state();
    TenantPages pages(state, state.users().everybody(), OwnTenant::kIfKnown);
    int parts = 1;
    while (!pages.read_some()) ++parts;
    EXPECT_GT(parts, 1) << "the mutex of the lane is free in between";
    return pages.take();
  });
  ASSERT_EQ(seen.size(), kTenants);
  for (std::size_t i = 0; i < kTenants; ++i) {
    const auto found = seen.find("tenant-" + std::to_string(1000 + i));
    ASSERT_NE(found, seen.end()) << i;
    EXPECT_EQ(found->second.queued, 2U);
  }
}

TEST_F(InspectionTest, AUserWhoIsNoAdminSeesItsOwnPartOfALane) {
  start([](config::Config& config) {
    config.users["tenant-1007"] = {};
    config.users["nothing"] = {};
  });
  add_tenants();
  on_io_thread([this] {
    kIoThread.assert_held();
    const auto& state = server_->state();
    const UserRef user = state.users().find("tenant-1007");
    EXPECT_EQ(lane_seen_by(lane_, *user).queued, 2U);
    EXPECT_EQ(lane_seen_by(lane_, *user).batches, 1U);
    const TenantViews seen = tenants_seen_by(state, user, OwnTenant::kAlways);
    EXPECT_EQ(seen.size(), 1U);
    EXPECT_EQ(seen.at("tenant-1007").queued, 2U);
    const UserRef other = state.users().find("nothing");
    EXPECT_EQ(lane_seen_by(lane_, *other).queued, 0U);
    EXPECT_EQ(tenants_seen_by(state, other, OwnTenant::kAlways).size(), 1U);
    EXPECT_EQ(tenants_seen_by(state, other, OwnTenant::kIfKnown).size(), 0U);
    return 0;
  });
}

}  // namespace
}  // namespace locksley::daemon

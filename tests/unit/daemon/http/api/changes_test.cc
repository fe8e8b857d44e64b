// Changes by the HTTP API while the disk takes nothing: they do not wait, and there are only so
// many.
#include <gmock/gmock.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daemon/http/api/api.h"
#include "daemon/http/api/pending_changes.h"
#include "daemon/http/router.h"
#include "tests/support/server_fixture.h"
#include "tests/support/store_fixture.h"

namespace locksley::daemon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ApiChangesTest : public ServerFixture {
 protected:
  explicit ApiChangesTest(const std::function<void(config::Config&)>& change = {}) {
    opened_ = std::move(Store::open(bench_.options(), testing::silent_log()).value());
    store_ = opened_.get();
    start(change);
    api_ = std::make_unique<Api>(server_->state(), health_);
    api_->add_to(router_);
  }
  ~ApiChangesTest() override {
    bench_.disk->release();
    stop();
    opened_->stop();
    api_.reset();
    server_.reset();
  }

  // The I/O thread only. Its answer, at once or later, goes into `replies_`.
  void post(const std::string& path, const std::string& body = "{}", const HttpCaller& caller = {}) {
    const HttpRequest request{.method = "POST",
                              .path = path,
                              .host = "localhost",
                              .content_type = "application/json",
                              .x_locksley_request = "1",
                              .content_length = body.size(),
                              .body = body,
                              .caller = caller,
                              .peer = asio::ip::make_address("127.0.0.1")};
    const auto answer = [this](const HttpReply& reply) { replies_.push_back(reply); };
    const HttpReply reply = router_.route(request);
    reply.later ? reply.later(answer) : answer(reply);
  }
  // The replies so far, and forgets them.
  std::vector<HttpReply> take_replies() {
    return on_io_thread([this] { return std::exchange(replies_, {}); });
  }

  testing::StoreBench bench_;
  std::unique_ptr<Store> opened_;
  Health health_{pool_, lane_};
  Router router_;
  std::unique_ptr<Api> api_;
  std::vector<HttpReply> replies_;
};

TEST_F(ApiChangesTest, OnlySoManyOfAUserWaitForTheStore) {
  Client client(port_);
  client.send("SUBMIT echo ID b DELAY 1000000 JOBS a\r\n");
  EXPECT_EQ(client.bulk(), "b");
  bench_.disk->hold_syncs();
  on_io_thread([this] {
    for (std::size_t n = 0; n < PendingChanges::kMostOfUser / 2; ++n) {
      post("/api/batches/b/weight", R"({"weight": )" + std::to_string(n + 1) + "}");
      post("/api/customers/c/set", R"({"slots": )" + std::to_string(n + 1) + "}");
    }
    return 0;
  });
  EXPECT_TRUE(take_replies().empty()) << "they wait";
  on_io_thread([this] {
    post("/api/batches/b/cancel");
    post("/api/customers/c/del");
    return 0;
  });
  const std::vector<HttpReply> refused = take_replies();
  ASSERT_EQ(refused.size(), 2U);
  for (const HttpReply& reply : refused) {
    EXPECT_EQ(reply.status, HttpStatus::kUnavailable);
    EXPECT_THAT(reply.body, HasSubstr("STORE very many changes wait"));
    EXPECT_THAT(reply.fields, ElementsAre("Retry-After: 1"));
  }
  bench_.disk->release();
  std::vector<HttpReply> replies;
  EXPECT_TRUE(testing::wait_until_true([&] {
    for (HttpReply& reply : take_replies()) replies.push_back(std::move(reply));
    return replies.size() == PendingChanges::kMostOfUser;
  }));
  for (const HttpReply& reply : replies) EXPECT_EQ(reply.status, HttpStatus::kOk) << reply.body;
  on_io_thread([this] {
    post("/api/batches/b/cancel");
    return 0;
  });
  EXPECT_TRUE(testing::wait_until_true([&] {
    for (HttpReply& reply : take_replies()) replies.push_back(std::move(reply));
    return replies.size() == PendingChanges::kMostOfUser + 1;
  }));
  EXPECT_EQ(replies.back().status, HttpStatus::kOk) << "there is room again";
}

TEST_F(ApiChangesTest, TheyAreChargedToTheCallerAndDoNotWait) {
  Client client(port_);
  client.send("SUBMIT echo ID b DELAY 1000000 JOBS a\r\n");
  EXPECT_EQ(client.bulk(), "b");
  bench_.disk->hold_syncs();
  EXPECT_EQ(on_io_thread([this] {
              kIoThread.assert_held();
              Account& account = server_->batches().registry().tenants().of("default").account;
              account.charge(Resource::kWriteBytes, WriteCharges::kMostPending);
              // The reply to SUBMIT may have come before its charge goes.
              const std::uint64_t before = account.used(Resource::kWriteBytes);
              post("/api/batches/b/cancel");
              const std::uint64_t used = account.used(Resource::kWriteBytes);
              account.refund(Resource::kWriteBytes, WriteCharges::kMostPending);
              return used - before;
            }),
            kCostOfWrite)
      << "a person who stops a flood need not wait for it";
  bench_.disk->release();
}

class ApiChangesOfUsersTest : public ApiChangesTest {
 protected:
  ApiChangesOfUsersTest()
      : ApiChangesTest([](config::Config& config) {
          config.users["ann"] = {};
          config.users["bob"] = {};
        }) {}
  static HttpCaller caller(const std::string& user) {
    return {.kind = HttpCaller::Kind::kUser, .user = user, .groups = config::User().commands};
  }
};

TEST_F(ApiChangesOfUsersTest, ThoseOfOneUserLeavePlacesForOthers) {
  const auto set_slots = [this](std::size_t slots, const std::string& user) {
    post("/api/customers/c/set", R"({"slots": )" + std::to_string(slots) + "}", caller(user));
  };
  bench_.disk->hold_syncs();
  on_io_thread([&] {
    for (std::size_t n = 0; n < 300; ++n) set_slots(n + 1, "ann");
    return 0;
  });
  const std::vector<HttpReply> refused = take_replies();
  EXPECT_EQ(refused.size(), 300 - PendingChanges::kMostOfUser);
  for (const HttpReply& reply : refused) EXPECT_EQ(reply.status, HttpStatus::kUnavailable) << reply.body;
  on_io_thread([&] {
    set_slots(1, "bob");
    return 0;
  });
  ASSERT_TRUE(take_replies().empty()) << "it waits for the store";
  bench_.disk->release();
  std::vector<HttpReply> replies;
  EXPECT_TRUE(testing::wait_until_true([&] {
    for (HttpReply& reply : take_replies()) replies.push_back(std::move(reply));
    return replies.size() == PendingChanges::kMostOfUser + 1;
  }));
  for (const HttpReply& reply : replies) EXPECT_EQ(reply.status, HttpStatus::kOk) << reply.body;
}

}  // namespace
}  // namespace locksley::daemon

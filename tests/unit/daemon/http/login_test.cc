// The login: real checks, with cheap hashes.
#include "daemon/http/login.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/auth/password.h"

namespace locksley::daemon {
namespace {

using config::CommandGroup;

constexpr const char* kAlice = "Basic YWxpY2U6cmlnaHQ=";   // alice:right
constexpr const char* kWrong = "Basic YWxpY2U6d3Jvbmc=";   // alice:wrong
constexpr const char* kNobody = "Basic bm9ib2R5OnJpZ2h0";  // nobody:right
constexpr const char* kToken = "Bearer 0123456789abcdef";

class HttpLoginTest : public ::testing::Test {
 protected:
  HttpLogin::Identity identify(const std::string& field) {
    std::optional<HttpLogin::Identity> identity;
    asio::co_spawn(io_, login_.identify(field, asio::ip::make_address("127.0.0.1")),
                   [&](std::exception_ptr, HttpLogin::Identity found) { identity = std::move(found); });
    io_.restart();
    while (!identity && io_.run_one_for(std::chrono::seconds(60)) > 0) {
    }
    return identity.value();
  }
  HttpStatus status(const std::string& field) { return identify(field).status; }

  void require_login() { login_.set(config::HttpLogin::kUsers, Secret(std::string("0123456789abcdef"))); }

  asio::io_context io_;
  const decltype(asio::make_work_guard(io_)) work_ = asio::make_work_guard(io_);
  std::string hash_ = hash_password("right", {8, 1}).value();
  std::string next_hash_;  // alice's after the next time that she is looked up; empty: the same
  Authenticator authenticator_{io_.get_executor()};
  HttpLogin login_{authenticator_, [this](const std::string& name) -> std::optional<HttpUser> {
                     if (name != "alice") return std::nullopt;
                     HttpUser alice{.hash = hash_, .groups = {CommandGroup::kSubmit, CommandGroup::kRead}};
                     if (!next_hash_.empty()) hash_ = next_hash_;
                     return alice;
                   }};
};

TEST_F(HttpLoginTest, WithoutALoginEverybodyMayDoAll) {
  const auto identity = identify(kWrong);
  EXPECT_EQ(identity.status, HttpStatus::kOk);
  EXPECT_EQ(identity.caller.kind, HttpCaller::Kind::kAnybody);
  EXPECT_TRUE(identity.caller.sees_all());
  EXPECT_TRUE(identity.caller.may(CommandGroup::kAdmin));
}

TEST_F(HttpLoginTest, AUserIsKnownByItsPassword) {
  require_login();
  const auto identity = identify(kAlice);
  EXPECT_EQ(identity.status, HttpStatus::kOk);
  EXPECT_EQ(identity.caller.kind, HttpCaller::Kind::kUser);
  EXPECT_EQ(identity.caller.user, "alice");
  EXPECT_TRUE(identity.caller.may(CommandGroup::kRead));
  EXPECT_FALSE(identity.caller.may(CommandGroup::kControl));
  EXPECT_FALSE(identity.caller.sees_all());
}

TEST_F(HttpLoginTest, APasswordThatChangesWhileItIsCheckedIsRefused) {
  require_login();
  next_hash_ = hash_password("new", {8, 1}).value();
  EXPECT_EQ(status(kAlice), HttpStatus::kUnauthorized);
}

TEST_F(HttpLoginTest, TheTokenSeesAllAndChangesNothing) {
  require_login();
  const auto identity = identify(kToken);
  EXPECT_EQ(identity.status, HttpStatus::kOk);
  EXPECT_EQ(identity.caller.kind, HttpCaller::Kind::kToken);
  EXPECT_TRUE(identity.caller.sees_all());
  EXPECT_TRUE(identity.caller.may(CommandGroup::kRead));
  EXPECT_FALSE(identity.caller.may(CommandGroup::kSubmit));
  EXPECT_FALSE(identity.caller.may(CommandGroup::kControl));
  EXPECT_FALSE(identity.caller.may(CommandGroup::kAdmin));
}

TEST_F(HttpLoginTest, OthersAreRefused) {
  require_login();
  for (const char* field : {"", "garbage", kWrong, kNobody, "Bearer 0123456789abcdeg", "Basic Og=="}) {
    EXPECT_EQ(status(field), HttpStatus::kUnauthorized) << field;
  }
  EXPECT_EQ(authenticator_.failures(), 4U) << "what can be looked at counts, wrong tokens too";
}

TEST_F(HttpLoginTest, ANewTokenReplacesTheOld) {
  require_login();
  login_.set(config::HttpLogin::kUsers, Secret(std::string("another token, or so")));
  EXPECT_EQ(status(kToken), HttpStatus::kUnauthorized);
  login_.set(config::HttpLogin::kUsers, std::nullopt);
  EXPECT_EQ(status(kToken), HttpStatus::kUnauthorized);
}

TEST_F(HttpLoginTest, WrongPasswordsOfAnAddressKeepNoUserOutWhosePasswordIsRemembered) {
  require_login();
  ASSERT_EQ(status(kAlice), HttpStatus::kOk);
  // After these failures the next check for her from here waits for 400 ms.
  for (int i = 0; i < 3; ++i) ASSERT_EQ(status(kWrong), HttpStatus::kUnauthorized);
  std::vector<HttpStatus> refused;
  for (int i = 0; i < 64; ++i) {
    asio::co_spawn(
        io_, login_.identify(kWrong, asio::ip::make_address("127.0.0.1")),
        [&](std::exception_ptr, const HttpLogin::Identity& found) { refused.push_back(found.status); });
  }
  io_.restart();
  io_.poll();
  EXPECT_EQ(std::ranges::count(refused, HttpStatus::kUnavailable), 32) << "the other 32 wait";
  EXPECT_EQ(status(kAlice), HttpStatus::kOk);
  while (refused.size() < 64 && io_.run_one_for(std::chrono::seconds(60)) > 0) {
  }
  EXPECT_EQ(std::ranges::count(refused, HttpStatus::kUnauthorized), 32);
}

TEST_F(HttpLoginTest, RefusalsSayHowToLogIn) {
  const HttpReply unauthorized = HttpLogin::refusal(HttpStatus::kUnauthorized);
  EXPECT_EQ(unauthorized.status, HttpStatus::kUnauthorized);
  EXPECT_TRUE(unauthorized.fields.at(0).starts_with("WWW-Authenticate: Basic realm="));
  EXPECT_TRUE(unauthorized.fields.at(1).starts_with("WWW-Authenticate: Bearer"));
  const HttpReply busy = HttpLogin::refusal(HttpStatus::kUnavailable);
  EXPECT_EQ(busy.status, HttpStatus::kUnavailable);
  EXPECT_EQ(busy.fields.at(0), "Retry-After: 1");
}

class LoginWaitsTest : public ::testing::Test {
 protected:
  // Adds a request; returns its verdict, which may change later.
  std::shared_ptr<std::optional<Verdict>> add(const std::string& user,
                                              const std::string& network = "10.0.0.1") {
    auto verdict = std::make_shared<std::optional<Verdict>>();
    all_.push_back(std::make_shared<LoginWaits::Wait>([verdict](Verdict given) { *verdict = given; }));
    waits_.add(asio::ip::make_address(network), user, all_.back());
    return verdict;
  }

  LoginWaits waits_;
  std::vector<std::shared_ptr<LoginWaits::Wait>> all_;
};

TEST_F(LoginWaitsTest, AnAddressHasABound) {
  for (std::size_t i = 0; i < LoginWaits::kMostOfNetwork; ++i) EXPECT_EQ(*add("u"), std::nullopt);
  EXPECT_EQ(*add("u"), Verdict::kBusy);
  EXPECT_EQ(*add("u", "10.0.0.2"), std::nullopt);
  all_[5]->end(Verdict::kRefused);
  EXPECT_EQ(*add("u"), std::nullopt) << "one has ended";
  all_[6].reset();
  EXPECT_EQ(*add("u"), std::nullopt) << "the connection of one has ended";
  EXPECT_EQ(*add("u"), Verdict::kBusy);
}

TEST_F(LoginWaitsTest, TheUserWithMostGivesWay) {
  std::vector<std::shared_ptr<std::optional<Verdict>>> guesses;
  for (std::size_t i = 0; i < LoginWaits::kMostOfNetwork; ++i) guesses.push_back(add("u"));
  EXPECT_EQ(*add("v"), std::nullopt);
  EXPECT_EQ(*guesses.back(), Verdict::kBusy);
  guesses.pop_back();
  for (const auto& guess : guesses) EXPECT_EQ(*guess, std::nullopt);
}

TEST_F(LoginWaitsTest, WhereEachUserHasOneTheNewOneGivesWay) {
  for (std::size_t i = 0; i < LoginWaits::kMostOfNetwork; ++i) add("u" + std::to_string(i));
  EXPECT_EQ(*add("new"), Verdict::kBusy);
}

}  // namespace
}  // namespace locksley::daemon

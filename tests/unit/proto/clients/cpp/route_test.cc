// Which address is tried next, without any connection.
#include "proto/clients/cpp/route.h"

#include <gtest/gtest.h>

namespace locksley::client {
namespace {

using Next = Route::Next;

Route route_of(const char* list) { return Route(parse_addresses(list).value()); }

std::string named(const char* address) { return "READONLY the active daemon is " + std::string(address); }

TEST(RouteTest, AddressesAreTriedInTurnWithAPauseAfterEachRound) {
  Route route = route_of("a:1,b:2,c:3");
  EXPECT_EQ(route.current().text(), "a:1");
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(route.unreachable(), Next::kAtOnce);
    EXPECT_EQ(route.current().text(), "b:2");
    EXPECT_EQ(route.unreachable(), Next::kAtOnce);
    EXPECT_EQ(route.current().text(), "c:3");
    EXPECT_EQ(route.unreachable(), Next::kAfterPause);
    EXPECT_EQ(route.current().text(), "a:1");
  }
}

TEST(RouteTest, AConnectionThatServedAndBrokeIsMadeAgainBeforeTheOthersAreTried) {
  Route route = route_of("a:1,b:2");
  route.serving();
  EXPECT_EQ(route.unreachable(), Next::kAtOnce);
  EXPECT_EQ(route.current().text(), "a:1");
  EXPECT_EQ(route.unreachable(), Next::kAtOnce);
  EXPECT_EQ(route.current().text(), "b:2");
  route.serving();
  EXPECT_EQ(route.standing_by(named("a:1")), Next::kAtOnce);
  EXPECT_EQ(route.unreachable(), Next::kAtOnce) << "of the address that was followed nothing is known";
  EXPECT_EQ(route.current().text(), "b:2");
}

TEST(RouteTest, OneAddressIsTriedAgainAfterAPause) {
  Route route = route_of("a:1");
  EXPECT_FALSE(route.is_list());
  EXPECT_EQ(route.unreachable(), Next::kAfterPause);
  EXPECT_EQ(route.current().text(), "a:1");
}

TEST(RouteTest, TheAddressThatAStandbyNamesIsNextWithTheSameUserAndTls) {
  Route route(parse_addresses("rediss://u:p@a:1,b:2").value());
  EXPECT_EQ(route.standing_by(named("other:9")), Next::kAtOnce);
  EXPECT_EQ(route.current(),
            (Address{.host = "other", .port = 9, .user = "u", .password = "p", .tls = true}));
  EXPECT_EQ(route.standing_by(named("[::1]:9")), Next::kAtOnce) << "a second one is not followed";
  EXPECT_EQ(route.current().text(), "a:1");
}

TEST(RouteTest, TwoThatNameEachOtherAreAskedAgainOnlyAfterAPause) {
  Route route = route_of("a:1,b:2");
  int attempts = 1;
  for (Next next = Next::kAtOnce; next == Next::kAtOnce; ++attempts) {
    ASSERT_LT(attempts, 10);
    next = route.standing_by(named(route.current().text() == "a:1" ? "b:2" : "a:1"));
  }
  EXPECT_LE(attempts, 5) << "at most two for each address, and one more";
}

TEST(RouteTest, AfterAFailedFollowTheListGoesOn) {
  Route route = route_of("a:1,b:2");
  EXPECT_EQ(route.standing_by(named("c:3")), Next::kAtOnce);
  EXPECT_EQ(route.unreachable(), Next::kAtOnce);
  EXPECT_EQ(route.current().text(), "a:1");
  EXPECT_EQ(route.unreachable(), Next::kAfterPause);
  EXPECT_EQ(route.current().text(), "b:2");
}

TEST(RouteTest, ANamedAddressOfTheListIsItsPlaceInTheList) {
  Route route = route_of("a:1,b:2,c:3");
  EXPECT_EQ(route.standing_by(named("b:2")), Next::kAtOnce);
  EXPECT_EQ(route.unreachable(), Next::kAtOnce);
  EXPECT_EQ(route.current().text(), "c:3");
}

TEST(RouteTest, AReplyWithoutAUsableAddressIsNotFollowed) {
  for (const char* address : {"", "unknown", "b:2x", "redis://evil:1", "u:p@evil:1:2", "x,y:1", "a:1"}) {
    Route route = route_of("a:1");
    EXPECT_EQ(route.standing_by(named(address)), Next::kAfterPause) << address;
    EXPECT_EQ(route.current().text(), "a:1") << address;
  }
}

TEST(RouteTest, OneThatTakesOverIsAskedAgainAfterAPause) {
  Route route = route_of("a:1,b:2");
  EXPECT_EQ(route.unreachable(), Next::kAtOnce);
  EXPECT_EQ(route.loading(), Next::kAfterPause);
  EXPECT_EQ(route.current().text(), "b:2");
}

TEST(RouteTest, OnlyWhatAnotherAttemptMendsHasOne) {
  Route route = route_of("a:1,b:2");
  EXPECT_EQ(route.after({.kind = ClientError::Kind::kRefused, .code = "WRONGPASS"}), std::nullopt);
  EXPECT_EQ(route.after({.kind = ClientError::Kind::kProtocol}), std::nullopt);
  EXPECT_EQ(route.after({.kind = ClientError::Kind::kInterrupted}), std::nullopt);
  EXPECT_EQ(route.current().text(), "a:1");
  EXPECT_EQ(route.after({.kind = ClientError::Kind::kRefused, .code = "LOADING"}), Next::kAfterPause);
  EXPECT_EQ(route.after({.kind = ClientError::Kind::kUnavailable}), Next::kAtOnce);
  EXPECT_EQ(route.current().text(), "b:2");
  EXPECT_EQ(route.after({.kind = ClientError::Kind::kRefused, .code = "READONLY", .message = named("c:3")}),
            Next::kAtOnce);
  EXPECT_EQ(route.current().text(), "c:3");
}

}  // namespace
}  // namespace locksley::client

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

TEST(RouteTest, AddressesThatADaemonNamesAreTriedAfterThoseOfTheList) {
  Route route(parse_addresses("rediss://u:p@a:1,b:2").value());
  route.name_others({"b:2", "c:3", "c:3", "x", "redis://y:1", "z@y:1"});
  EXPECT_EQ(route.text(), "a:1,b:2,c:3");
  EXPECT_EQ(route.unreachable(), Next::kAtOnce);
  EXPECT_EQ(route.unreachable(), Next::kAtOnce);
  EXPECT_EQ(route.current(), (Address{.host = "c", .port = 3, .user = "u", .password = "p", .tls = true}));
  route.name_others({"d:4"});
  EXPECT_EQ(route.text(), "a:1,b:2,d:4") << "they replace those that were named before";
  EXPECT_EQ(route.current().text(), "c:3");
  EXPECT_EQ(route.unreachable(), Next::kAfterPause);
  EXPECT_EQ(route.current().text(), "a:1");
}

TEST(RouteTest, ADaemonSendsNoFurtherThanTheRouteReaches) {
  Route route(parse_addresses("127.0.0.1:1").value(), Route::Reach::kThisMachine);
  route.name_others({"10.0.0.1:1", "localhost:2", "[::1]:3", "127.evil:4", "127.0.0.2:5"});
  EXPECT_EQ(route.text(), "127.0.0.1:1,localhost:2,[::1]:3,127.0.0.2:5");
  EXPECT_EQ(route.standing_by(named("10.0.0.1:1")), Next::kAtOnce);
  EXPECT_EQ(route.current().text(), "localhost:2");
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

TEST(RouteTest, AfterTwoRepliesThatItIsLoadingTheListGoesOn) {
  Route route = route_of("a:1,b:2");
  for (const char* const next : {"a:1", "b:2", "b:2", "a:1", "a:1", "b:2"}) {
    EXPECT_EQ(route.loading(), Next::kAfterPause);
    EXPECT_EQ(route.current().text(), next);
  }
  Route one = route_of("a:1");
  for (int i = 0; i < 3; ++i) EXPECT_EQ(one.loading(), Next::kAfterPause);
  EXPECT_EQ(one.current().text(), "a:1");
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
